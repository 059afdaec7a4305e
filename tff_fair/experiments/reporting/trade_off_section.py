"""Section: score against fairness, and the methods that no other beats."""

from collections.abc import Sequence

import numpy as np

from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.measures import Measure
from tff_fair.experiments.reporting import (
  final_measures,
  scale,
  scatter_chart,
  section,
  tails,
)
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import Method, TaskRuns
from tff_fair.experiments.reporting.scatter_chart import Point
from tff_fair.experiments.reporting.section import Section

_MAX_NAMES = 10


def build(task: TaskRuns) -> Section:
  """Returns the section: the mean score against std and worst 10 %."""
  title = f"{task.score.title} and fairness"
  figures = [
    figure
    for name in ("std", "worst_10")
    if (figure := _figure(task, name)) is not None
  ]
  if not figures:
    return Section(title, absence=f"no run has finite {task.score.plural}")
  return Section(
    title,
    [
      section.note(
        f"Worst 10 %: {tails.clients(task, 10)}. "
        if tails.clients(task, 10)
        else None,
        "At the end of the runs. The dashed line joins the Pareto front: no "
        "other method is better in one of the two measures without being worse "
        "in the other.",
        " Whiskers are one standard deviation over seeds."
        if task.has_seeds
        else None,
        " Where a name has no room, look up the symbol in the legend.",
      ),
      section.charts(figures),
    ],
  )


def _figure(task: TaskRuns, name: str) -> Markup | None:
  score, mean, measure = task.score, task.measures["mean"], task.measures[name]
  points = [
    point
    for method in task.methods
    if np.isfinite((point := _point(task, method, name)).x + point.y)
  ]
  if not points:
    return None
  front = scatter_chart.pareto_front(
    [_sign(mean) * point.x for point in points],
    [_sign(measure) * point.y for point in points],
  )
  names = ", ".join(points[place].label for place in front)
  if len(front) > _MAX_NAMES:
    names = f"{len(front)} of {len(points)} methods"
  up = "up" if measure.higher_is_better else "down"
  right = "right" if mean.higher_is_better else "left"
  title = f"{measure.title} against mean {score.noun}"
  chart = scatter_chart.draw(
    points,
    Frame(
      _scale([(point.x, point.x_spread) for point in points], score.limit),
      _scale([(point.y, point.y_spread) for point in points], score.limit),
      x_label=f"mean {score.noun}{score.in_brackets}",
    ),
    identifier=f"{task.identifier}-mean-{name}",
    title=title,
    description=f"Better is {right} and {up}. Pareto front: {names}.",
    front=front,
  )
  return section.figure(
    chart,
    f"{measure.title} of {score.noun} over clients{score.in_brackets}, better "
    f"{up} and {right}",
    f"Pareto front: {names}.",
  )


def _sign(measure: Measure) -> int:
  return 1 if measure.higher_is_better else -1


def _point(task: TaskRuns, method: Method, name: str) -> Point:
  x, y = (
    final_measures.of_method(method, n, score=task.score)
    for n in ("mean", name)
  )
  texts = [
    f"{measure.words} {measures.value_text(measure, value)}{task.score.sign}"
    for n, value in (("mean", x), (name, y))
    for measure in [task.measures[n]]
  ]
  return Point(
    method.label,
    method.number,
    method.style,
    x.mean,
    y.mean,
    x.std or 0.0,
    y.std or 0.0,
    ", ".join(texts),
  )


def _scale(values: Sequence[tuple[float, float]], limit: float) -> scale.Scale:
  low = min(mean - spread for mean, spread in values)
  high = max(mean + spread for mean, spread in values)
  # Points at the very edge would be half a marker beyond it.
  room = (high - low) / 20
  return scale.linear(
    max(low - room, 0), min(high + room, limit), bounds=(0, limit)
  )
