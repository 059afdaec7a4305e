"""Trials of a study, and what came of them: read from the folders of runs."""

import dataclasses
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tff_fair.experiments import spec_text
from tff_fair.experiments.comparing import groups, measures
from tff_fair.experiments.runs import finding
from tff_fair.experiments.runs.run import ROUND
from tff_fair.experiments.scores import ACCURACY, Score
from tff_fair.experiments.searching.study import SearchSettings, Study
from tff_fair.experiments.sweeps import choice

# States of a trial.
RUNNING, COMPLETE, PRUNED, FAILED = "running", "complete", "pruned", "failed"


class Outcome(NamedTuple):
  """What came of a trial.

  Attributes:
    state: `RUNNING`, `COMPLETE`, `PRUNED` or `FAILED`.
    values: The objectives of a complete trial, means over seeds.
    curve: The first objective of the first seed by round; empty where a search
      has several objectives.
    score: The score of the runs; None where it is not known yet.
  """

  state: str
  values: tuple[float, ...] = ()
  curve: Mapping[int, float] = {}
  score: Score | None = None


_NOT_ENDED = Outcome(RUNNING)


@dataclasses.dataclass(frozen=True)
class Trial:
  """A trial of a study.

  Attributes:
    number: Its number in the study, from 0 on.
    settings: The texts of the settings that it tries.
    runs: The names of its runs' folders, one for each seed.
    outcome: What came of it.
  """

  number: int
  settings: Mapping[str, str]
  runs: tuple[str, ...]
  outcome: Outcome = _NOT_ENDED


def score_of(trials: Sequence[Trial]) -> Score:
  """Returns the score of the runs of trials; of none, the accuracy.

  It decides nothing before a trial has ended: no value is told before.
  """
  known = (trial.outcome.score for trial in trials)
  return next((score for score in known if score is not None), ACCURACY)


def objective(
  clients: pd.DataFrame, name: str, fraction: float, score: Score = ACCURACY
) -> float:
  """Returns an objective of an evaluation, over the clients to choose on.

  Where it is no number, as of a model that diverged, it is the worst possible.

  Args:
    clients: One row per client: client_id, num_examples, loss, and the score.
    name: The name of the measure.
    fraction: Share of the clients to choose on; 0 is all.
    score: The score of the clients.

  Raises:
    FieldError: If the clients cannot be divided, or do not have the measure.
  """
  part = choice.part_of(clients, fraction, is_validation=True)
  measure = measures.find(name, score, "the search", "objective")
  value = measures.of_clients(part, score)[name]
  if math.isnan(value):
    return -math.inf if measure.higher_is_better else math.inf
  return value


def outcome(
  folder: pathlib.Path,
  runs: Sequence[str],
  settings: SearchSettings,
  state: str,
) -> Outcome:
  """Reads what came of a trial that has ended.

  Args:
    folder: The folder above the runs.
    runs: The names of their folders.
    settings: How to search.
    state: How it has ended.
  """
  fraction = settings.validation_fraction
  if state == FAILED:
    return Outcome(state)
  first = finding.open_run(folder / runs[0])
  score = groups.common_score([first])
  curve: dict[int, float] = {}
  if len(settings.objectives) == 1:
    curve = {
      int(round_num): objective(clients, settings.objective, fraction, score)
      for round_num, clients in first.client_evaluations.groupby(ROUND)
      if round_num > 0  # Before the first round, all trials are alike.
    }
  if state == PRUNED:
    return Outcome(state, (), curve, score)
  last = [finding.open_run(folder / name).last_evaluation for name in runs]
  values = tuple(
    float(
      np.mean([objective(clients, name, fraction, score) for clients in last])
    )
    for name in settings.objectives
  )
  return Outcome(state, values, curve, score)


def best(trials: Sequence[Trial], settings: SearchSettings) -> list[Trial]:
  """Returns the best complete trial, or those of the Pareto set.

  Of equal trials, the first; by several objectives, those that no other trial
  beats: none is better in one objective and not worse in the others.
  """
  complete = [trial for trial in trials if trial.outcome.state == COMPLETE]
  directions = settings.directions(score_of(complete))
  signs = [1 if d == "maximize" else -1 for d in directions]

  def key(trial: Trial) -> list[float]:
    return [s * v for s, v in zip(signs, trial.outcome.values, strict=True)]

  if len(signs) == 1:
    return [max(complete, key=key)] if complete else []
  found: list[Trial] = []
  for trial in complete:
    beaten = any(
      key(other) != key(trial)
      and all(a >= b for a, b in zip(key(other), key(trial), strict=True))
      for other in complete
    )
    if not beaten and all(other.settings != trial.settings for other in found):
      found.append(trial)
  return found


# What came of a search, for its user: the best trials and their commands.


def describe(
  studies: Sequence[Study],
  found: dict[str, list[Trial]],
  settings: SearchSettings,
) -> str:
  """Returns the best trials of each study, with the commands that train them.

  Args:
    studies: The studies.
    found: Their trials, by the names of the studies.
    settings: How they were searched.
  """
  lines: list[str] = []
  for study in studies:
    own = found[study.name]
    chosen = best(own, settings)
    lines += [f"{study.name}: {_counts(own)}."]
    if len(chosen) > 1:
      lines += [f"{len(chosen)} trials that no other one beats:"]
    for trial in chosen:
      (first, *_) = study.runs(trial.settings)
      # A folder of its own: that of the trial is taken.
      path = pathlib.Path("outputs") / f"{first.spec.short_name}-best"
      lines += [
        f"  trial {trial.number}: {values_text(trial, settings)}; "
        f"{settings_text(trial)}",
        f"    {spec_text.command(first.spec, str(path), first.workers)}",
      ]
  return "\n".join(lines)


def values_text(trial: Trial, settings: SearchSettings) -> str:
  """Returns the objectives of a complete trial, as "worst 10 % 31.25"."""
  found = measures.of(score_of([trial]))
  return ", ".join(
    f"{measure.words} "
    f"{measures.value_text(measure, measures.over_seeds(measure, [value]))}"
    for name, value in zip(
      settings.objectives, trial.outcome.values, strict=True
    )
    for measure in [found[name]]
  )


def settings_text(trial: Trial) -> str:
  """Returns the settings that a trial tries, in a line."""
  return ", ".join(
    f"{groups.short_name(name)}={text}" for name, text in trial.settings.items()
  )


def _counts(found: Sequence[Trial]) -> str:
  states = [trial.outcome.state for trial in found]
  told = [
    f"{states.count(state)} {state}"
    for state in (COMPLETE, PRUNED, FAILED)
    if state in states
  ]
  return f"{len(found)} trials, {', '.join(told) or 'none of them ended'}"
