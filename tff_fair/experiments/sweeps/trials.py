"""Records the trials of a search, reads their outcomes, and reports them.

The record, search.json in the folder of a search, holds the settings of the
search and the settings of each trial; the results are in the folders of the
runs. A resumed search repeats the recorded trials, and then suggests others.
"""

import dataclasses
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tff_fair.experiments.analysis import measures, run_groups
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import ROUND
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.spec.scores import ACCURACY, Score
from tff_fair.experiments.sweeps import best_settings, setting_tables
from tff_fair.experiments.sweeps.study import (
  Dimension,
  SearchSettings,
  Space,
  Study,
)
from tff_fair.files import atomic, parsing

# States of a trial.
RUNNING, COMPLETE, PRUNED, FAILED = "running", "complete", "pruned", "failed"


class Outcome(NamedTuple):
  """The outcome of a trial, as far as it is known."""

  state: str  # `RUNNING`, `COMPLETE`, `PRUNED` or `FAILED`.
  values: tuple[float, ...] = ()  # If complete, means of objectives over seeds.
  # The objective by round, for the first seed; empty with several objectives.
  curve: Mapping[int, float] = {}
  score: Score | None = None  # The score of the runs; None if not known yet.


_NOT_ENDED = Outcome(RUNNING)


@dataclasses.dataclass(frozen=True)
class Trial:
  """A trial of a study: a combination of settings, and its runs' names."""

  number: int
  settings: Mapping[str, str]
  runs: tuple[str, ...]
  outcome: Outcome = _NOT_ENDED


def score_of(trials: Sequence[Trial]) -> Score:
  """Returns the score of trials' runs; accuracy if it is not known yet."""
  known = (trial.outcome.score for trial in trials)
  return next((score for score in known if score is not None), ACCURACY)


def objective(
  clients: pd.DataFrame, name: str, fraction: float, score: Score = ACCURACY
) -> float:
  """Returns an evaluation's objective `name`, on the data for selection.

  NaN, for example from a diverged model, becomes the worst possible value.
  """
  part = best_settings.select_part(clients, fraction, is_validation=True)
  measure = measures.find(name, score, "the search", "objective")
  value = measures.of_clients(part, score)[name]
  if math.isnan(value):
    return -math.inf if measure.higher_is_better else math.inf
  return value


def read_outcome(
  folder: pathlib.Path,
  runs: Sequence[str],
  settings: SearchSettings,
  state: str,
) -> Outcome:
  """Reads the outcome of a trial that has ended with `state`."""
  fraction = settings.validation_fraction
  if state == FAILED:
    return Outcome(state)
  first = discovery.read_run(folder / runs[0])
  score = run_groups.common_score([first])
  curve: dict[int, float] = {}
  if len(settings.objectives) == 1:
    curve = {
      int(round_num): objective(clients, settings.objective, fraction, score)
      for round_num, clients in first.client_evaluations.groupby(ROUND)
      if round_num > 0  # Before the first round, all trials have equal results.
    }
  if state == PRUNED:
    return Outcome(state, (), curve, score)
  last = [discovery.read_run(folder / name).last_evaluation for name in runs]
  values = tuple(
    float(
      np.mean([objective(clients, name, fraction, score) for clients in last])
    )
    for name in settings.objectives
  )
  return Outcome(state, values, curve, score)


def best(trials: Sequence[Trial], settings: SearchSettings) -> list[Trial]:
  """Returns a list with the best complete trial; empty if none is complete.

  With several objectives, returns the trials of the Pareto set.
  """
  complete = [trial for trial in trials if trial.outcome.state == COMPLETE]
  if not complete:
    return []
  directions = settings.directions(score_of(complete))
  signs = [1 if d == "maximize" else -1 for d in directions]
  values = np.multiply([trial.outcome.values for trial in complete], signs)
  if len(signs) == 1:
    return [complete[int(values.argmax())]]
  found: list[Trial] = []
  for trial, own in zip(complete, values, strict=True):
    is_beaten = ((values >= own).all(1) & (values > own).any(1)).any()
    if not is_beaten and trial.settings not in [t.settings for t in found]:
      found.append(trial)
  return found


def describe(
  studies: Sequence[Study],
  found: dict[str, list[Trial]],
  settings: SearchSettings,
) -> str:
  """Returns a text on each study's best trials, with commands to train them."""
  lines: list[str] = []
  for study in studies:
    states = [trial.outcome.state for trial in found[study.name]]
    counts = ", ".join(
      f"{states.count(state)} {state}"
      for state in (COMPLETE, PRUNED, FAILED)
      if state in states
    )
    chosen = best(found[study.name], settings)
    lines += [
      f"{study.name}: {len(states)} trials, {counts or 'none of them ended'}."
    ]
    if len(chosen) > 1:
      lines += [f"{len(chosen)} trials that no other one beats:"]
    for trial in chosen:
      (first, *_) = study.runs(trial.settings)
      # A new folder, since the trial's folder holds its run.
      path = pathlib.Path("outputs") / f"{first.spec.short_name}-best"
      lines += [
        f"  trial {trial.number}: {values_text(trial, settings)}; "
        f"{settings_text(trial)}",
        f"    {spec_text.command(first.spec, str(path))}",
      ]
  return "\n".join(lines)


def values_text(trial: Trial, settings: SearchSettings) -> str:
  """Returns a trial's objective values as text, such as "worst 10 % 31.25"."""
  found = measures.by_name(score_of([trial]))
  return ", ".join(
    f"{measure.words} "
    f"{measures.value_text(measure, measures.over_seeds(measure, [value]))}"
    for name, value in zip(
      settings.objectives, trial.outcome.values, strict=True
    )
    for measure in [found[name]]
  )


def settings_text(trial: Trial) -> str:
  """Returns a trial's settings in one line, as "name=value, ..."."""
  return ", ".join(
    f"{run_groups.short_name(name)}={text}"
    for name, text in trial.settings.items()
  )


RECORD_FILE = "search.json"  # The record of a search.
# Settings of a record that may change: a search may continue with more trials.
_FREE = ("trials",)


@dataclasses.dataclass(frozen=True)
class RecordedStudy:
  """A study in the record of a search."""

  name: str
  method: str
  space: Space
  trials: tuple[Trial, ...]


@dataclasses.dataclass(frozen=True)
class SearchRecord:
  """The settings and the studies of a search, as in its record."""

  settings: SearchSettings
  studies: Mapping[str, RecordedStudy]


def read_record(folder: pathlib.Path) -> SearchRecord | None:
  """Reads the record in a folder; None if the folder has no record."""
  path = folder / RECORD_FILE
  if not path.exists():
    return None
  try:
    content = parsing.parse_json(path.read_text("utf-8"))
    return SearchRecord(
      SearchSettings.from_dict(str(path), content["settings"]),
      {study["name"]: _read_study(study) for study in content["studies"]},
    )
  # A damaged file, or one that is not a record, may raise any error.
  except Exception as error:
    raise RunError(
      f"{path}: is not the record of a search: {error}; restore it, or move it "
      "away with the runs beside it."
    ) from error


def _read_study(content: Mapping[str, Any]) -> RecordedStudy:
  integers = content["integers"]
  space = {
    name: Dimension(_texts(given))
    if isinstance(given, list)
    else Dimension(
      range=setting_tables.parse_range(given), is_integer=name in integers
    )
    for name, given in content["space"].items()
  }
  name, method = _texts([content["name"], content["method"]])
  read = tuple(_read_trial(trial, space) for trial in content["trials"])
  return RecordedStudy(name, method, space, read)


def _read_trial(content: Mapping[str, Any], space: Space) -> Trial:
  number, settings = content["number"], dict(content["settings"])
  if not isinstance(number, int):
    raise TypeError(f"expected the number of a trial, found {number!r}")
  for name, text in zip(settings, _texts(settings.values()), strict=True):
    if not space[name].contains(text):
      raise ValueError(f"trial {number} has {name}={text} (of {space[name]})")
  if missing := space.keys() - settings.keys():
    raise ValueError(f"trial {number} lacks {', '.join(sorted(missing))}")
  if not content["runs"]:
    raise ValueError(f"trial {number} names no run")
  return Trial(number, settings, _texts(content["runs"]))


def _texts(found: Iterable[Any]) -> tuple[str, ...]:
  texts = tuple(found)
  for text in texts:
    if not isinstance(text, str):
      raise TypeError(f"expected a text, found {text!r}")
  return texts


def write_record(folder: pathlib.Path, record: SearchRecord) -> None:
  """Writes the record of a search into its folder."""
  written = [
    {
      "name": study.name,
      "method": study.method,
      "space": {
        name: str(d.range) if d.range else list(d.choices)
        for name, d in study.space.items()
      },
      "integers": [name for name, d in study.space.items() if d.is_integer],
      "trials": [
        {"number": t.number, "settings": dict(t.settings), "runs": t.runs}
        for t in study.trials
      ],
    }
    for study in record.studies.values()
  ]
  content = {
    "settings": dataclasses.asdict(record.settings),
    "studies": written,
  }
  atomic.write(folder / RECORD_FILE, parsing.json_text(content))


def check_same_search(
  folder: pathlib.Path,
  found: SearchRecord,
  settings: SearchSettings,
  studies: Sequence[Study],
) -> None:
  """Raises a `RunError` if the settings differ from those of the record."""
  before, now = map(dataclasses.asdict, (found.settings, settings))
  differences = [
    f"{name}={before[name]} (here {now[name]})"
    for name in now
    if name not in _FREE and before[name] != now[name]
  ]
  for study in (s for s in studies if s.name in found.studies):
    old, new = found.studies[study.name].space, study.space
    differences += [
      f"{name}={old.get(name, 'fixed')} (here {new.get(name, 'fixed')})"
      for name in {**old, **new}
      if old.get(name) != new.get(name)
    ]
  if differences:
    raise RunError(
      f"{folder}: holds a search with {', '.join(dict.fromkeys(differences))}; "
      "choose another folder, or continue it with the settings that it has."
    )


def with_outcomes(
  folder: pathlib.Path, found: SearchRecord, study: RecordedStudy
) -> list[Trial]:
  """Returns a study's trials, with the outcomes that their runs' folders show.

  A failed trial counts as not ended, since a resumed search trains it again.
  """
  updated = []
  for trial in study.trials:
    folders = [RunFolder(folder / name) for name in trial.runs]
    if all(run.is_finished for run in folders):
      state = COMPLETE
    elif folders[0].is_pruned:
      state = PRUNED
    else:
      updated.append(trial)
      continue
    came = read_outcome(folder, trial.runs, found.settings, state)
    updated.append(dataclasses.replace(trial, outcome=came))
  return updated
