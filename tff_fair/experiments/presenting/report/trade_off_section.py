"""Sections with charts of final results: bars, and score against fairness."""

import itertools
from collections.abc import Sequence

import numpy as np

from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.presenting.report import (
  final_measures,
  scale,
  scatter_chart,
  section,
  task_runs,
)
from tff_fair.experiments.presenting.report.final_measures import Result
from tff_fair.experiments.presenting.report.frame import (
  ABOVE_AND_BELOW,
  LETTER_WIDTH,
  Figure,
  Frame,
  Group,
  Path,
  Shape,
  Text,
  box_path,
)
from tff_fair.experiments.presenting.report.scale import Scale
from tff_fair.experiments.presenting.report.scatter_chart import Point
from tff_fair.experiments.presenting.report.task_runs import Method, TaskRuns

# Bars follow Figures 1 and 2 of Malekmohammadi and Yu, "Semi-Variance Reduction
# for Fair Federated Learning".
_BARS = ("mean", "worst_10", "worst_20")
_BARS_TITLE = "Mean and worst clients"
_WIDTH = 370  # In pixels.
_ROW, _BAR = 22, 13  # Heights of a row and its bar.
_MAX_LETTERS = 28
_VALUE_WIDTH, _GAP = 48, 14


def build_bars(task: TaskRuns) -> section.Section:
  """Returns the section: a bar chart for each measure, all on one scale."""
  if len(task.methods) < 2:
    return section.Section(_BARS_TITLE, absence="there is only one method")
  found = {
    name: [final_measures.of_method(task, m, name) for m in task.methods]
    for name in _BARS
  }
  results = itertools.chain.from_iterable(found.values())
  known = [end for of in results for end in of.ends if np.isfinite(end)]
  absence = ""
  if not known:
    absence = f"no run has finite {task.score.plural}"
  elif min(known) < 0:
    absence = f"bars begin at 0, {task.score.noun} does not"
  if absence:
    return section.Section(_BARS_TITLE, absence=absence)
  limit = task.score.limit
  x = scale.linear(0, min(max(known), limit), bounds=(0, limit))
  return section.build(
    _BARS_TITLE,
    "bars",
    task,
    intervals=final_measures.INTERVALS,
    figures=[_bars(task, name, x, found[name]) for name in _BARS],
  )


def _bars(
  task: TaskRuns, name: str, x: Scale, results: Sequence[Result]
) -> Figure:
  """Returns the bars of a measure, one for each method, the first on top."""
  title, score = task.measures[name].title, task.score
  letters = min(max(len(m.label) for m in task.methods), _MAX_LETTERS)
  frame = Frame(
    x,
    Scale(0, len(results), ()),
    x_label=f"{score.noun}{score.in_brackets}",
    width=_WIDTH,
    height=_ROW * len(results) + ABOVE_AND_BELOW,
    left=LETTER_WIDTH * letters + _GAP,
    right=_VALUE_WIDTH,
  )
  shown = list(zip(task.methods, results, strict=True))
  values = ", ".join(f"{method.label} {r.mean_text}" for method, r in shown)
  chart = frame.drawing(
    f"{task.identifier}-bars-{name.replace('_', '-')}",
    f"{title}, {score.noun}",
    f"{values}.",
    [
      Path(frame.vertical_grid(), "grid"),
      *frame.axes(),
      *(
        _row(method, result, frame.top + _ROW * (n + 0.5), frame)
        for n, (method, result) in enumerate(shown)
      ),
    ],
  )
  tail = final_measures.tail_text(task, name)
  return Figure(chart, f"{title}{tail}{score.in_brackets}")


def _row(method: Method, result: Result, middle: float, frame: Frame) -> Group:
  """Returns a method's name, value, and bar if the value is finite."""
  base, right = middle + 4, frame.width - frame.right
  name = task_runs.truncate(method.label, _MAX_LETTERS)
  parts: list[Shape] = [Text(name, frame.left - _GAP / 2, base, "end", "name")]
  if np.isfinite(result.mean):
    zero, end = frame.x_pixels([0, result.mean])
    box = box_path(zero, middle - _BAR / 2, end - zero, _BAR)
    parts.append(Path(box, "bars"))
    if result.interval is not None:
      low, high = frame.x_pixels(frame.x.clipped(result.interval))
      parts.append(Path(f"M{low:.1f} {middle:.1f}H{high:.1f}", "spread"))
  parts.append(Text(result.mean_text, right + _VALUE_WIDTH - 2, base, "end"))
  title = f"{method.label}: {result.text}"
  return Group(parts, f"series {method.style.classes}", title)


_MAX_NAMES = 10
_PAIRS = (("mean", "std"), ("mean", "worst_10"))
# These are the axes of Figure 3 of Ju et al., "Accelerating Fair Federated
# Learning: Adaptive Federated Adam".
_ERROR_PAIRS = (
  ("error", "error_relative_std"),
  ("weighted_error", "weighted_error_relative_std"),
)


def build(task: TaskRuns) -> section.Section:
  """Returns the section: scatter charts of two measures of each method."""
  title = f"{task.score.title} and fairness"
  figures = _figures(task, _PAIRS)
  if not figures:
    absence = f"no run has finite {task.score.plural}"
    return section.Section(title, absence=absence)
  return section.build(
    title,
    "trade_off",
    task,
    figures=figures,
    errors=_figures(task, _ERROR_PAIRS),
    tail=final_measures.tail_clients(task, 10),
    intervals=final_measures.INTERVALS,
    has_front=_has_front(task),
  )


def _figures(task: TaskRuns, pairs: Sequence[tuple[str, str]]) -> list[Figure]:
  known = [pair for pair in pairs if {*pair} <= {*task.measures}]
  return [*filter(None, (_figure(task, x, y) for x, y in known))]


def _has_front(task: TaskRuns) -> bool:
  """Returns whether to draw the front, which needs several runs per method."""
  return all(len(method.runs) > 1 for method in task.methods)


def _figure(task: TaskRuns, x_name: str, y_name: str) -> Figure | None:
  all_points = [_point(task, method, x_name, y_name) for method in task.methods]
  points = [point for point in all_points if np.isfinite(point.x + point.y)]
  if not points:
    return None
  x, y = task.measures[x_name], task.measures[y_name]
  front = scatter_chart.front_of(points, x, y) if _has_front(task) else []
  names = ", ".join(points[place].label for place in front)
  if len(front) > _MAX_NAMES:
    names = f"{len(front)} of {len(points)} methods"
  front_text = f"Pareto front: {names}." if front else ""
  up = "up" if y.higher_is_better else "down"
  right = "right" if x.higher_is_better else "left"
  title, across = _title(task, y_name), _title(task, x_name)
  against = across[0].lower() + across[1:]
  chart = scatter_chart.draw(
    points,
    Frame(
      _scale(x, [point.x_interval or (point.x,) for point in points]),
      _scale(y, [point.y_interval or (point.y,) for point in points]),
      x_label=f"{against}{x.in_brackets}",
    ),
    identifier=f"{task.identifier}-{x_name}-{y_name}",
    title=f"{title} against {against}",
    description=f"Better is {right} and {up}. {front_text}".rstrip(),
    front=front,
  )
  return Figure(
    chart, f"{title}{y.in_brackets}, better {up} and {right}", front_text
  )


def _title(task: TaskRuns, name: str) -> str:
  titles = {
    "mean": f"Mean {task.score.noun}",
    "std": f"Std of {task.score.noun} over clients",
    "worst_10": f"Worst 10 % of {task.score.noun} over clients",
  }
  return titles.get(name, task.measures[name].title)


def _point(task: TaskRuns, method: Method, x_name: str, y_name: str) -> Point:
  x = final_measures.of_method(task, method, x_name)
  y = final_measures.of_method(task, method, y_name)
  return Point(
    method.label,
    method.style,
    *(x.mean, y.mean),
    f"{x.text}, {y.text}",
    *(x.interval, y.interval),
  )


def _scale(measure: Measure, ranges: Sequence[Sequence[float]]) -> Scale:
  # Without margins, markers at the edge of the plot would extend beyond it.
  return scale.with_margins(
    min(map(min, ranges)),
    max(map(max, ranges)),
    bounds=(measure.scale * measure.lowest, measure.scale * measure.highest),
  )
