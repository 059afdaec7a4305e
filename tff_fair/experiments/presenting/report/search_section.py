"""Section: how a search went, and which settings mattered."""

import dataclasses
import importlib.util
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tff_fair.experiments import number_text
from tff_fair.experiments.analysis import measures
from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.presenting.report import (
  curves,
  html_tables,
  scale,
  scatter_chart,
  section,
  task_runs,
)
from tff_fair.experiments.presenting.report.curves import Line
from tff_fair.experiments.presenting.report.frame import Figure, Frame
from tff_fair.experiments.presenting.report.scatter_chart import Point
from tff_fair.experiments.presenting.report.task_runs import TaskRuns
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.sweeps import best_settings, trials
from tff_fair.experiments.sweeps.study import SearchSettings
from tff_fair.experiments.sweeps.trials import COMPLETE, RecordedStudy, Trial

# No method has this number, so that hiding a method does not hide trials.
_NO_METHOD = 9999
# The styles have the markers diamond and circle.
_TRIAL_STYLE, _BEST_STYLE = (
  dataclasses.replace(task_runs.style(n), number=_NO_METHOD) for n in (4, 0)
)


def build(task: TaskRuns) -> section.Section:
  """Returns the section on searches, empty if no folder has a search.json."""
  of_folders: dict[pathlib.Path, dict[str, Run]] = {}
  for run in (*task.runs, *task.unfinished):
    of_folders.setdefault(run.path.parent, {})[run.path.name] = run
  studies: list[dict[str, Any] | str] = []
  for folder, runs in of_folders.items():
    try:
      found = trials.read_record(folder)
      if found is None:
        continue
      for study in found.studies.values():
        shown = [runs[n] for t in study.trials for n in t.runs if n in runs]
        if shown:
          identifier = f"{task.identifier}-search{len(studies)}"
          known_trials = trials.with_outcomes(folder, found, study)
          clients = _deciding_clients(shown, found.settings)
          studies.append(
            _study(identifier, study, known_trials, found.settings, clients)
          )
    except RunError as error:  # Only this search is left out.
      studies.append(f"A search is left out, because it is damaged: {error}")
  if not studies:
    return section.Section("Search")
  return section.build("Search", "search", task, studies=studies)


def _deciding_clients(runs: Sequence[Run], settings: SearchSettings) -> str:
  """Returns a phrase for the clients and data on which trials are compared."""
  fraction = settings.validation_fraction
  if any(tables.has_validation(run.last_evaluation) for run in runs):
    return "validation data of the clients"
  numbers = {len(tables.drop_unseen(run.last_evaluation)) for run in runs}
  if best_settings.is_divided(max(numbers), fraction):
    return f"{fraction:.0%} of the clients"
  return "all clients"


def _study(
  identifier: str,
  study: RecordedStudy,
  known_trials: Sequence[Trial],
  settings: SearchSettings,
  clients: str,
) -> dict[str, Any]:
  states = [trial.outcome.state for trial in known_trials]
  complete = [t for t in known_trials if t.outcome.state == COMPLETE]
  best = trials.best(known_trials, settings)
  figures = []
  if complete:
    figures = _histories(identifier, complete, settings)
    figures += _fronts(identifier, complete, best, settings)
  return {
    "name": study.name,
    "num_trials": len(known_trials),
    "num_complete": len(complete),
    "num_pruned": states.count(trials.PRUNED),
    "settings": settings,
    "clients": clients,
    "space": ", ".join(f"{name}={d}" for name, d in study.space.items()),
    "best": [
      f"trial {trial.number} ({trials.values_text(trial, settings)}) with "
      f"{trials.settings_text(trial)}"
      for trial in best or ()
    ],
    "figures": figures,
    **_importances(study, known_trials, settings),
  }


def _histories(
  identifier: str, complete: Sequence[Trial], settings: SearchSettings
) -> list[Figure]:
  figures = []
  for place, name in enumerate(settings.objectives):
    measure = _measures(complete)[name]
    values = _values(complete, place, measure)
    if not np.isfinite(values).any():
      continue
    x = np.array([trial.number for trial in complete], float)
    best_so_far = (
      np.fmax.accumulate(values)
      if measure.higher_is_better
      else np.fmin.accumulate(values)
    )
    lines = [
      Line("this trial", _TRIAL_STYLE, x, values),
      Line("best so far", _BEST_STYLE, x, best_so_far),
    ]
    best = number_text.grouped(best_so_far[-1], measure.digits)
    title = f"{measure.title} by trial"
    chart = curves.draw(
      lines,
      Frame(
        scale.linear(0, max(x[-1], 1), is_tight=True, is_whole=True),
        _scale(values),
        x_label="trial",
      ),
      identifier=f"{identifier}-{name}",
      title=title,
      description=f"The best of {len(complete)} complete trials has {best}.",
      decimals=measure.digits,
    )
    direction = _direction_text(measure)
    note = f"Diamonds: each trial. Circles: the best so far; {direction}."
    figures.append(Figure(chart, title, note))
  return figures


def _fronts(
  identifier: str,
  complete: Sequence[Trial],
  best: Sequence[Trial],
  settings: SearchSettings,
) -> list[Figure]:
  """Returns a chart of the first two objectives; [] with one objective."""
  if len(settings.objectives) < 2:
    return []
  one, other = (_measures(complete)[n] for n in settings.objectives[:2])
  unbeaten = {trial.number for trial in best}
  points = [
    Point(
      str(trial.number),
      _BEST_STYLE if trial.number in unbeaten else _TRIAL_STYLE,
      *(x, y),
      trials.values_text(trial, settings),
    )
    for trial, x, y in zip(
      complete,
      _values(complete, 0, one),
      _values(complete, 1, other),
      strict=True,
    )
    if np.isfinite([x, y]).all()
  ]
  if not points:
    return []
  front = scatter_chart.front_of(points, one, other)
  names = ", ".join(points[place].label for place in front)
  title = f"{other.title} against {one.words}"
  chart = scatter_chart.draw(
    points,
    Frame(
      _scale(np.array([point.x for point in points])),
      _scale(np.array([point.y for point in points])),
      x_label=one.words,
    ),
    identifier=f"{identifier}-front",
    title=title,
    description=f"Pareto front: trials {names}.",
    front=front,
  )
  note = (
    f"Trials by number. {one.title}: {_direction_text(one)}. "
    f"{other.title}: {_direction_text(other)}."
  )
  return [Figure(chart, title, note)]


def _importances(
  study: RecordedStudy, known_trials: Sequence[Trial], settings: SearchSettings
) -> dict[str, Any]:
  """Returns the importances of settings, where Optuna can estimate them."""
  if importlib.util.find_spec("optuna") is None:
    return {"has_optuna": False}
  from tff_fair.experiments.sweeps import optuna_study  # noqa: PLC0415

  shares: dict[str, Mapping[str, float]] = {}
  for place, name in enumerate(settings.objectives):
    title = _measures(known_trials)[name].title
    found = optuna_study.importances(study.space, settings, known_trials, place)
    if found:
      shares[title] = found
  table = None
  if len(study.space) > 1 and shares:
    rows = [["Setting", *shares]]
    for key in dict.fromkeys(key for found in shares.values() for key in found):
      percents = (100 * found[key] for found in shares.values())
      rows.append([key, *(number_text.grouped(n, 1) for n in percents)])
    table = html_tables.of_text("Importance of settings (%)", rows)
  return {"has_optuna": True, "importances": table}


def _measures(known_trials: Sequence[Trial]) -> Mapping[str, Measure]:
  return measures.by_name(trials.score_of(known_trials))


def _values(
  complete: Sequence[Trial], place: int, measure: Measure
) -> np.ndarray:
  """Returns trials' values of an objective, scaled; NaN if not finite."""
  found = np.array([trial.outcome.values[place] for trial in complete], float)
  return np.where(np.isfinite(found), measure.scale * found, np.nan)


def _scale(values: np.ndarray) -> scale.Scale:
  low, high = np.nanmin(values), np.nanmax(values)
  return scale.with_margins(
    low, high, bounds=(0 if low >= 0 else -np.inf, np.inf)
  )


def _direction_text(measure: Measure) -> str:
  return "more is better" if measure.higher_is_better else "less is better"
