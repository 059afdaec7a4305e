"""Section: the mean score and those of the worst clients as bars.

The form of Figures 1 and 2 of Malekmohammadi and Yu, "Semi-Variance Reduction
for Fair Federated Learning".
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.measures import Value
from tff_fair.experiments.reporting import (
  final_measures,
  markup,
  scale,
  section,
  shapes,
)
from tff_fair.experiments.reporting import frame as frames
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.markup import Markup, element
from tff_fair.experiments.reporting.methods import MethodRuns, TaskRuns
from tff_fair.experiments.reporting.scale import Scale
from tff_fair.experiments.reporting.section import Section
from tff_fair.experiments.reporting.styles import Style
from tff_fair.metrics.intervals import Interval

# Horizontal bars, one for each method, with its name and its value.


_WIDTH, _ROW, _BAR = 370, 22, 13  # In pixels; heights of a row and its bar.
_LETTER_WIDTH = 7.0
_MAX_LETTERS = 28
_VALUE_WIDTH, _GAP = 48, 14
_ABOVE_AND_BELOW = 52  # All rows: Frame.top and Frame.bottom.


class Bar(NamedTuple):
  """A method.

  Attributes:
    label: Its name.
    number: Its number.
    style: Its look.
    value: Mean over seeds, 0 or more; NaN and infinity have no bar.
    interval: Over seeds; None where there is none.
    text: The value as the chart shows it.
    tip: The value in words.
  """

  label: str
  number: int
  style: Style
  value: float
  interval: Interval | None
  text: str
  tip: str


def _draw(
  bars: Sequence[Bar],
  x: Scale,
  *,
  identifier: str,
  title: str,
  description: str,
  x_label: str,
) -> Markup:
  """Draws bars, the first one on top.

  Args:
    bars: The methods, at least one.
    x: The scale of the values; it begins at 0.
    identifier: Unique on the page.
    title: Title of the chart.
    description: Its contents in words.
    x_label: Name of the values, with their unit.
  """
  letters = min(max(len(bar.label) for bar in bars), _MAX_LETTERS)
  frame = Frame(
    x,
    Scale(0, len(bars), ()),
    x_label=x_label,
    width=_WIDTH,
    height=_ROW * len(bars) + _ABOVE_AND_BELOW,
    left=round(_LETTER_WIDTH * letters) + _GAP,
    right=_VALUE_WIDTH,
  )
  floor = frame.height - frame.bottom
  grid = "".join(
    f"M{at:.1f} {frame.top}V{floor}" for at in frame.x_pixels(x.ticks)
  )
  return frame.drawing(
    identifier,
    title,
    description,
    element("path", d=grid, class_="grid"),
    frame.axes(),
    [_row(bar, place, frame) for place, bar in enumerate(bars)],
  )


def _row(bar: Bar, place: int, frame: Frame) -> Markup:
  middle = frame.top + _ROW * (place + 0.5)
  base = middle + 4
  right = frame.width - frame.right
  name = bar.label
  if len(name) > _MAX_LETTERS:
    name = f"{name[: _MAX_LETTERS - 1]}…"
  return element(
    "g",
    element("title", f"{bar.label}: {bar.tip}"),
    frames.text(name, frame.left - _GAP / 2, base, "end", "name"),
    _drawn_bar(bar, middle, frame) if np.isfinite(bar.value) else None,
    frames.text(bar.text, right + _VALUE_WIDTH - 2, base, "end"),
    class_=f"series c{bar.style.color} m{bar.number}",
  )


def _drawn_bar(bar: Bar, middle: float, frame: Frame) -> Markup:
  zero, end = frame.x_pixels([0, bar.value])
  box = element(
    "path",
    d=shapes.box(zero, middle - _BAR / 2, end - zero, _BAR),
    class_="bars",
  )
  if bar.interval is None:
    return box
  low, high = frame.x_pixels(frame.x.clipped(bar.interval))
  whisker = f"M{low:.1f} {middle:.1f}H{high:.1f}"
  return markup.joined(box, element("path", d=whisker, class_="spread"))


_TITLE = "Mean and worst clients"
_NAMES = ("mean", "worst_10", "worst_20")


def build(task: TaskRuns) -> Section:
  """Returns the section: a chart for each measure, all to one scale."""
  if len(task.methods) < 2:
    return Section(_TITLE, absence="there is one method alone")
  values = {
    name: [
      final_measures.of_method(method, name, score=task.score)
      for method in task.methods
    ]
    for name in _NAMES
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
    return Section(_TITLE, absence=f"no run has finite {task.score.plural}")
  if min(known) < 0:
    return Section(
      _TITLE, absence=f"bars begin at 0, {task.score.noun} does not"
    )
  limit = task.score.limit
  x = scale.linear(0, min(max(known), limit), bounds=(0, limit))
  return Section(
    _TITLE,
    [
      section.note(
        f"Test {task.score.noun} at the end of the runs.",
        f" Lines over the bars are {final_measures.INTERVALS} over seeds."
        if task.has_seeds
        else None,
      ),
      section.charts(
        [_figure(task, name, x, values[name]) for name in _NAMES],
        class_="charts three",
      ),
    ],
  )


def _figure(
  task: TaskRuns, name: str, x: Scale, values: Sequence[Value]
) -> Markup:
  measure = task.measures[name]
  score = task.score
  bars = [
    _bar(task, name, method, value)
    for method, value in zip(task.methods, values, strict=True)
  ]
  title = f"{measure.title}, {score.noun}"
  chart = _draw(
    bars,
    x,
    identifier=f"{task.identifier}-bars-{name.replace('_', '-')}",
    title=title,
    description=f"{', '.join(f'{bar.label} {bar.text}' for bar in bars)}.",
    x_label=f"{score.noun}{score.in_brackets}",
  )
  percent = name.removeprefix("worst_")
  tail = (
    f": {final_measures.tail_clients(task, int(percent))}"
    if percent != name
    else ""
  )
  return section.figure(chart, f"{measure.title}{tail}{score.in_brackets}")


def _bar(task: TaskRuns, name: str, method: MethodRuns, value: Value) -> Bar:
  measure = task.measures[name]
  return Bar(
    method.label,
    method.number,
    method.style,
    value.mean,
    final_measures.interval(method, measure, value),
    measures.value_text(measure, value._replace(std=None)),
    final_measures.text(method, measure, value, task.score.sign),
  )
