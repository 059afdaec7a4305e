"""Section: score, fairness and loss over rounds, bytes or operations."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from tff_fair.experiments.analysis import chosen_evaluations
from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.presenting.report import (
  curves,
  final_measures,
  scale,
  section,
)
from tff_fair.experiments.presenting.report.curves import Curve, Line
from tff_fair.experiments.presenting.report.frame import Figure, Frame
from tff_fair.experiments.presenting.report.task_runs import Method, TaskRuns
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.scores import BY_NAME, Score

# Curves by the name of the measure, then by the number of the method.
Curves = Mapping[str, Mapping[int, Curve]]

_FOLDED = ("worst_20", "worst_30", "error_relative_std")


def _titles(score: Score) -> dict[str, str]:
  return {
    "mean": f"Mean {score.noun}",
    "std": "Standard deviation over clients",
    "worst_10": f"{score.title} of the worst 10 %",
    "worst_20": f"{score.title} of the worst 20 %",
    "worst_30": f"{score.title} of the worst 30 %",
    "best_10": f"{score.title} of the best 10 %",
    "loss": "Mean loss",
    "loss_max": "Loss of the worst client",
    "error_relative_std": "Relative standard deviation of the error",
    **{
      f"{name}_median": f"Median {BY_NAME[name].noun}"
      for name in score.extra_scores
    },
  }


def _measures_of_task(task: TaskRuns) -> Curves:
  titles = _titles(task.score)
  return {
    name: {
      method.number: curve
      for method in task.methods
      if (curve := _measure_curve(method, measure)) is not None
    }
    for name, measure in task.measures.items()
    if name in titles
  }


def _measure_curve(method: Method, measure: Measure) -> Curve | None:
  def table_of(run: Run) -> pd.DataFrame:
    if measure.is_stored:
      return run.evaluations
    values = chosen_evaluations.measure_over_rounds(run, measure, honest=False)
    return values.rename(measure.column).reset_index()

  return curves.over_seeds(method, table_of, measure.column)


_TITLE = "Curves"


class _Axis(NamedTuple):
  """An x axis: the cumulative sum of `columns`, or rounds without columns."""

  name: str
  title: str
  label: str
  columns: tuple[str, ...] = ()
  units: tuple[str, ...] = ("",)


_ROUNDS = _Axis("rounds", "Rounds", "round")
_BYTES = _Axis(
  name="bytes",
  title="Bytes communicated",
  label="bytes down and up",
  columns=("bytes_down", "bytes_up"),
  units=scale.BYTES,
)
_OPERATIONS = _Axis(
  name="operations",
  title="Local operations",
  label="local operations",
  columns=("local_operations",),
  units=scale.COUNTS,
)
_AXES = (_ROUNDS, _BYTES, _OPERATIONS)


def build(task: TaskRuns) -> section.Section:
  """Returns the section: a chart for each measure and axis."""
  found = _measures_of_task(task)
  sizes = [c.rounds.size for of in found.values() for c in of.values()]
  if max(sizes, default=0) == 1:
    absence = "each run was evaluated once; the tables show all results"
    return section.Section(_TITLE, absence=absence)
  costs = {axis: _costs(task, axis) for axis in _AXES}
  shown = {name: of for name, of in found.items() if name not in _FOLDED}
  more = {name: of for name, of in found.items() if name in _FOLDED}
  panels = {axis: _figures(task, axis, costs[axis], shown) for axis in _AXES}
  offered = {axis: panel for axis, panel in panels.items() if panel}
  if not offered:
    return section.Section(_TITLE, absence="no finished run was evaluated")
  return section.build(
    _TITLE,
    "curves",
    task,
    offered=offered,
    absent=[a.title.lower() for a in _AXES if a not in offered],
    costs=costs,
    more=_figures(task, _ROUNDS, costs[_ROUNDS], more),
  )


def _costs(task: TaskRuns, axis: _Axis) -> dict[int, Curve | None]:
  """Returns known costs by method number; all None if the axis is rounds."""
  if not axis.columns:
    return dict.fromkeys(method.number for method in task.methods)
  found = {
    m.number: curves.cumulative_cost(m, axis.columns) for m in task.methods
  }
  return {number: cost for number, cost in found.items() if cost is not None}


def _figures(
  task: TaskRuns, axis: _Axis, costs: Mapping[int, Curve | None], found: Curves
) -> list[Figure]:
  figures = []
  for name, of_methods in found.items():
    factor = task.measures[name].scale
    lines = [
      curves.line(m, of_methods[n], costs[n], factor=factor)
      for m in task.methods
      if (n := m.number) in of_methods and n in costs
    ]
    if lines := [line for line in lines if line.x.size]:
      figures.append(_figure(task, name, lines, axis))
  return figures


def _figure(
  task: TaskRuns, name: str, lines: Sequence[Line], axis: _Axis
) -> Figure:
  measure, title = task.measures[name], _titles(task.score)[name]
  unit = scale.unit(max(line.x[-1] for line in lines), axis.units)
  lines = [dataclasses.replace(line, x=line.x / unit.size) for line in lines]
  slug = measure.column.replace("/", "-").replace("_", "-")
  is_percent = bool(measure.sign)
  chart = curves.draw(
    lines,
    Frame(
      curves.x_scale(lines, is_whole=not axis.columns),
      curves.y_scale(lines, is_percent=is_percent, least=measure.lowest),
      x_label=f"{axis.label} ({unit.name})" if unit.name else axis.label,
    ),
    identifier=f"{task.identifier}-{axis.name}-{slug}",
    title=f"{title} against {axis.title.lower()}",
    description=curves.describe_ends(lines, "the end", measure.sign),
    x_name=f"{axis.label} {unit.name}".rstrip(),
    y_unit=measure.sign,
    decimals=measure.digits,
  )
  tail = final_measures.tail_text(task, name)
  return Figure(chart, f"{title}{tail}{measure.in_brackets}")
