"""What came of a search, for its user: the best trials and their commands."""

import pathlib
from collections.abc import Sequence

from tff_fair.experiments import spec_text
from tff_fair.experiments.comparing import groups, measures
from tff_fair.experiments.searching import trials
from tff_fair.experiments.searching.settings import SearchSettings
from tff_fair.experiments.searching.study import Study
from tff_fair.experiments.searching.trials import Trial


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
    best = trials.best(own, settings)
    lines += [f"{study.name}: {_counts(own)}."]
    if len(best) > 1:
      lines += [f"{len(best)} trials that no other one beats:"]
    for trial in best:
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
  found = measures.of(trials.score_of([trial]))
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
    for state in (trials.COMPLETE, trials.PRUNED, trials.FAILED)
    if state in states
  ]
  return f"{len(found)} trials, {', '.join(told) or 'none of them ended'}"
