"""Section: score against fairness, and the methods that no other beats."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tff_fair.experiments.comparing.measures import Measure
from tff_fair.experiments.reporting import (
  final_measures,
  scale,
  scatter_chart,
  section,
)
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import MethodRuns, TaskRuns
from tff_fair.experiments.reporting.scatter_chart import Point
from tff_fair.experiments.reporting.section import Section

_MAX_NAMES = 10
_PAIRS = (("mean", "std"), ("mean", "worst_10"))
# The axes of Figure 3 of Ju et al., "Accelerating Fair Federated Learning:
# Adaptive Federated Adam".
_ERROR_PAIRS = (
  ("error", "error_relative_std"),
  ("weighted_error", "weighted_error_relative_std"),
)


class _Axis(NamedTuple):
  """A measure as an axis of a chart.

  Attributes:
    name: The name of the measure.
    measure: The measure.
    title: Its name in words.
    unit: Follows its numbers.
    in_brackets: The unit after its title.
    limit: Its largest value.
  """

  name: str
  measure: Measure
  title: str
  unit: str
  in_brackets: str
  limit: float

  @property
  def sign(self) -> int:
    """1 where more is better, otherwise -1."""
    return 1 if self.measure.higher_is_better else -1


def build(task: TaskRuns) -> Section:
  """Returns the section: mean against std and worst 10 %, error and spread."""
  title = f"{task.score.title} and fairness"
  figures = _figures(task, _PAIRS)
  errors = _figures(task, _ERROR_PAIRS)
  if not figures:
    return Section(title, absence=f"no run has finite {task.score.plural}")
  return Section(
    title,
    [
      section.note(
        f"Worst 10 %: {final_measures.tail_clients(task, 10)}. "
        if final_measures.tail_clients(task, 10)
        else None,
        "At the end of the runs. ",
        f"Whiskers are {final_measures.INTERVALS} over seeds. "
        if task.has_seeds
        else None,
        "The dashed line joins the Pareto front of the means: no other method "
        "is better in one of the two measures without being worse in the other."
        if _has_front(task)
        else "With one seed it is unknown how sure a place is: no Pareto front "
        "is drawn.",
        " Where a name has no room, look up the symbol in the legend.",
      ),
      section.charts(figures),
      section.fold(
        "Error and its relative spread",
        section.note(
          "The error is 100 − accuracy. In the first chart clients count the "
          "same, in the second they count by their test examples."
        ),
        section.charts(errors),
      )
      if errors
      else None,
    ],
  )


def _figures(task: TaskRuns, pairs: Sequence[tuple[str, str]]) -> list[Markup]:
  """Returns the charts of pairs of measures that the runs have."""
  figures = [
    _figure(task, x, y)
    for x, y in pairs
    if x in task.measures and y in task.measures
  ]
  return [figure for figure in figures if figure is not None]


def _has_front(task: TaskRuns) -> bool:
  """Returns whether each place is known to some uncertainty."""
  return all(len(method.runs) > 1 for method in task.methods)


def _figure(task: TaskRuns, x_name: str, y_name: str) -> Markup | None:
  x, y = _axis(task, x_name), _axis(task, y_name)
  points = [
    point
    for method in task.methods
    if np.isfinite((point := _point(task, method, x, y)).x + point.y)
  ]
  if not points:
    return None
  front = []
  if _has_front(task):
    front = scatter_chart.pareto_front(
      [x.sign * point.x for point in points],
      [y.sign * point.y for point in points],
    )
  names = ", ".join(points[place].label for place in front)
  if len(front) > _MAX_NAMES:
    names = f"{len(front)} of {len(points)} methods"
  said = [f"Pareto front: {names}."] if front else []
  up = "up" if y.measure.higher_is_better else "down"
  right = "right" if x.measure.higher_is_better else "left"
  against = x.title[0].lower() + x.title[1:]
  chart = scatter_chart.draw(
    points,
    Frame(
      _scale([point.x_interval or (point.x,) for point in points], x),
      _scale([point.y_interval or (point.y,) for point in points], y),
      x_label=f"{against}{x.in_brackets}",
    ),
    identifier=f"{task.identifier}-{x.name}-{y.name}",
    title=f"{y.title} against {against}",
    description=" ".join([f"Better is {right} and {up}.", *said]),
    front=front,
  )
  return section.figure(
    chart,
    f"{y.title}{y.in_brackets}, better {up} and {right}",
    *said,
  )


def _axis(task: TaskRuns, name: str) -> _Axis:
  score, measure = task.score, task.measures[name]
  titles = {
    "mean": f"Mean {score.noun}",
    "std": f"Std of {score.noun} over clients",
    "worst_10": f"Worst 10 % of {score.noun} over clients",
  }
  title = titles.get(name, measure.title)
  if measure.scale == score.scale:
    return _Axis(
      name, measure, title, score.sign, score.in_brackets, score.limit
    )
  return _Axis(name, measure, title, "", "", math.inf)


def _point(task: TaskRuns, method: MethodRuns, x: _Axis, y: _Axis) -> Point:
  at, up = (
    final_measures.of_method(method, axis.name, score=task.score)
    for axis in (x, y)
  )
  texts = [
    final_measures.text(method, axis.measure, value, axis.unit)
    for axis, value in ((x, at), (y, up))
  ]
  return Point(
    method.label,
    method.number,
    method.style,
    at.mean,
    up.mean,
    ", ".join(texts),
    final_measures.interval(method, x.measure, at),
    final_measures.interval(method, y.measure, up),
  )


def _scale(ranges: Sequence[Sequence[float]], axis: _Axis) -> scale.Scale:
  lowest, limit = axis.measure.lowest, axis.limit
  low, high = min(map(min, ranges)), max(map(max, ranges))
  # Points at the very edge would be half a marker beyond it.
  room = (high - low) / 20
  return scale.linear(
    max(low - room, lowest), min(high + room, limit), bounds=(lowest, limit)
  )
