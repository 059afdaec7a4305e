"""Sections of charts of the ends of runs: bars, and score against fairness."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tff_fair.experiments.comparing.measures import Measure, Value
from tff_fair.experiments.reporting import (
  final_measures,
  markup,
  scale,
  scatter_chart,
  section,
)
from tff_fair.experiments.reporting import frame as frames
from tff_fair.experiments.reporting.frame import Frame, box_path
from tff_fair.experiments.reporting.markup import Markup, element
from tff_fair.experiments.reporting.methods import MethodRuns, TaskRuns
from tff_fair.experiments.reporting.scale import Scale
from tff_fair.experiments.reporting.scatter_chart import Point
from tff_fair.experiments.reporting.section import Section

# Section: the mean score and those of the worst clients as bars.
#
# The form of Figures 1 and 2 of Malekmohammadi and Yu, "Semi-Variance Reduction
# for Fair Federated Learning".

_BARS = ("mean", "worst_10", "worst_20")
_BARS_TITLE = "Mean and worst clients"
_WIDTH = 370  # In pixels.
_ROW, _BAR = 22, 13  # Heights of a row and its bar.
_LETTER_WIDTH = 7.0
_MAX_LETTERS = 28
_VALUE_WIDTH, _GAP = 48, 14
_ABOVE_AND_BELOW = 52  # All rows: Frame.top and Frame.bottom.


def build_bars(task: TaskRuns) -> Section:
  """Returns the section: a chart for each measure, all to one scale."""
  if len(task.methods) < 2:
    return Section(_BARS_TITLE, absence="there is one method alone")
  values = {
    name: [
      final_measures.of_method(task, method, name) for method in task.methods
    ]
    for name in _BARS
  }
  ends = [
    end
    for name, found in values.items()
    for method, value in zip(task.methods, found, strict=True)
    for end in final_measures.interval(method, task.measures[name], value)
    or (value.mean,)
  ]
  known = [end for end in ends if np.isfinite(end)]
  if not known:
    return Section(
      _BARS_TITLE, absence=f"no run has finite {task.score.plural}"
    )
  if min(known) < 0:
    return Section(
      _BARS_TITLE, absence=f"bars begin at 0, {task.score.noun} does not"
    )
  limit = task.score.limit
  x = scale.linear(0, min(max(known), limit), bounds=(0, limit))
  return Section(
    _BARS_TITLE,
    [
      section.note(
        f"Test {task.score.noun} at the end of the runs.",
        f" Lines over the bars are {final_measures.INTERVALS} over seeds."
        if task.has_seeds
        else None,
      ),
      section.charts(
        [_bars(task, name, x, values[name]) for name in _BARS],
        class_="charts three",
      ),
    ],
  )


def _bars(
  task: TaskRuns, name: str, x: Scale, values: Sequence[Value]
) -> Markup:
  """Returns the bars of a measure, one for each method, the first on top."""
  measure, score = task.measures[name], task.score
  letters = min(max(len(m.label) for m in task.methods), _MAX_LETTERS)
  frame = Frame(
    x,
    Scale(0, len(values), ()),
    x_label=f"{score.noun}{score.in_brackets}",
    width=_WIDTH,
    height=_ROW * len(values) + _ABOVE_AND_BELOW,
    left=round(_LETTER_WIDTH * letters) + _GAP,
    right=_VALUE_WIDTH,
  )
  floor = frame.height - frame.bottom
  grid = "".join(
    f"M{at:.1f} {frame.top}V{floor}" for at in frame.x_pixels(x.ticks)
  )
  shown = list(zip(task.methods, values, strict=True))
  told = ", ".join(
    f"{method.label} {final_measures.mean_text(measure, value)}"
    for method, value in shown
  )
  chart = frame.drawing(
    f"{task.identifier}-bars-{name.replace('_', '-')}",
    f"{measure.title}, {score.noun}",
    f"{told}.",
    element("path", d=grid, class_="grid"),
    frame.axes(),
    [
      _row(task, measure, method, value, frame.top + _ROW * (n + 0.5), frame)
      for n, (method, value) in enumerate(shown)
    ],
  )
  tail = final_measures.tail_text(task, name)
  return section.figure(chart, f"{measure.title}{tail}{score.in_brackets}")


def _row(
  task: TaskRuns,
  measure: Measure,
  method: MethodRuns,
  value: Value,
  middle: float,
  frame: Frame,
) -> Markup:
  """Returns a method's name, bar and value; what is not finite has no bar."""
  base, right = middle + 4, frame.width - frame.right
  name = method.label
  if len(name) > _MAX_LETTERS:
    name = f"{name[: _MAX_LETTERS - 1]}…"
  tip = final_measures.text(method, measure, value, task.score.sign)
  return element(
    "g",
    element("title", f"{method.label}: {tip}"),
    frames.text(name, frame.left - _GAP / 2, base, "end", "name"),
    _bar(measure, method, value, middle, frame)
    if np.isfinite(value.mean)
    else None,
    frames.text(
      final_measures.mean_text(measure, value),
      right + _VALUE_WIDTH - 2,
      base,
      "end",
    ),
    class_=f"series c{method.style.color} m{method.number}",
  )


def _bar(
  measure: Measure,
  method: MethodRuns,
  value: Value,
  middle: float,
  frame: Frame,
) -> Markup:
  zero, end = frame.x_pixels([0, value.mean])
  box = element(
    "path",
    d=box_path(zero, middle - _BAR / 2, end - zero, _BAR),
    class_="bars",
  )
  interval = final_measures.interval(method, measure, value)
  if interval is None:
    return box
  low, high = frame.x_pixels(frame.x.clipped(interval))
  whisker = f"M{low:.1f} {middle:.1f}H{high:.1f}"
  return markup.joined(box, element("path", d=whisker, class_="spread"))


# Section: score against fairness, and the methods that no other beats.

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
    final_measures.of_method(task, method, axis.name) for axis in (x, y)
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


def _scale(ranges: Sequence[Sequence[float]], axis: _Axis) -> Scale:
  # Points at the very edge would be half a marker beyond it.
  return scale.with_room(
    min(map(min, ranges)),
    max(map(max, ranges)),
    bounds=(axis.measure.lowest, axis.limit),
  )
