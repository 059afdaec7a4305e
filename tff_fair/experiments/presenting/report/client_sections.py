"""Sections on final scores: their distribution, and each client's scores."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from tff_fair import metrics
from tff_fair.experiments.presenting.report import (
  curves,
  final_measures,
  html_tables,
  scale,
  scatter_chart,
  section,
)
from tff_fair.experiments.presenting.report.curves import Line
from tff_fair.experiments.presenting.report.final_measures import Result
from tff_fair.experiments.presenting.report.frame import (
  ABOVE_AND_BELOW,
  Chart,
  Figure,
  Frame,
  Path,
  Shape,
  Text,
  box_path,
)
from tff_fair.experiments.presenting.report.html_tables import Cell, Head, Row
from tff_fair.experiments.presenting.report.scale import Scale
from tff_fair.experiments.presenting.report.scatter_chart import Point
from tff_fair.experiments.presenting.report.task_runs import Method, TaskRuns
from tff_fair.experiments.spec.scores import ACCURACY, Score
from tff_fair.metrics.intervals import Interval
from tff_fair.metrics.statistics import tail_size

_MAX_QUANTILES = 200

# Methods, each with an array float[clients] of scores per run, the worst first.
_Scored = Sequence[tuple[Method, list[np.ndarray]]]


def build(task: TaskRuns) -> section.Section:
  """Returns the section on scores over clients: quantiles and histograms."""
  score = task.score
  title = f"{score.title} over clients"
  scores = {method.number: _scores(method) for method in task.methods}
  known = {n: of for n, of in scores.items() if all(a.size for a in of)}
  if not known:
    absence = "no finished run has evaluated its clients"
    return section.Section(title, absence=absence)
  found = {
    n: of for n, of in known.items() if np.isfinite(np.concatenate(of)).all()
  }
  if not found:
    absence = f"no run has only finite {score.plural}"
    return section.Section(title, absence=absence)
  shown = [(m, found[m.number]) for m in task.methods if m.number in found]
  return section.build(
    title,
    "clients",
    task,
    ordered=_ordered(task, shown),
    histograms=_histograms(task, shown),
    steps=_steps(score),
    tail=final_measures.tail_clients(task, 10),
    known=known,
    finite=found.keys() | (scores.keys() - known.keys()),
  )


def _scores(method: Method) -> list[np.ndarray]:
  """Returns the clients' scores in each run of a method, the worst first."""
  return [
    final_measures.scores_of_run(run)
    .sort_values(ascending=run.score.higher_is_better)
    .to_numpy()
    for run in method.runs
  ]


def _ordered(task: TaskRuns, shown: _Scored) -> Figure:
  score = task.score
  lines = [_quantile_line(method, scores, score) for method, scores in shown]
  values = np.concatenate([line.y for line in lines])
  ends = float(values.min()), float(values.max())
  medians = ", ".join(
    f"{line.label} {np.median(line.y):.{score.short_digits}f}{score.sign}"
    for line in lines
  )
  order = f"from the {score.worst} to the {score.best}"
  chart = curves.draw(
    lines,
    Frame(
      scale.linear(0, 100, is_tight=True),
      scale.linear(*ends, bounds=(score.lowest, score.limit)),
      x_label=f"clients, {order} (%)",
    ),
    identifier=f"{task.identifier}-ordered",
    title=f"{score.title} of clients in order",
    description=f"Clients {order}. Median: {medians}.",
    x_name="share of clients (%)",
    y_unit=score.sign,
    decimals=score.digits,
  )
  return Figure(chart, f"Clients in order: {score.noun}{score.in_brackets}")


def _histograms(task: TaskRuns, shown: _Scored) -> list[Figure]:
  score = task.score
  values = np.concatenate([of_run for _, scores in shown for of_run in scores])
  start, end = score.lowest, score.highest
  if np.isinf(start):
    start = min(0.0, float(values.min()))
  if np.isinf(end):
    end = float(values.max()) or 1.0
  bins = [histogram_shares(scores, start, end) for _, scores in shown]
  frame = Frame(
    scale.linear(score.scale * start, score.scale * end, is_tight=True),
    scale.linear(0, 100 * float(np.max(bins)), num_ticks=3, bounds=(0, 100)),
    x_label=f"{score.noun}{score.in_brackets}",
    width=260,
    height=170,
    left=32,
  )
  figures = []
  for (method, scores), shares in zip(shown, bins, strict=True):
    tails = [a[: tail_size(10, a.size)] for a in scores]
    mean, worst = (
      score.scale * float(np.mean([a.mean() for a in found]))
      for found in (scores, tails)
    )
    identifier = f"{task.identifier}-histogram-{method.number}"
    digits = score.short_digits
    figures.append(
      Figure(
        draw_histogram(method, shares, mean, worst, frame, identifier, score),
        method.label,
        f"mean {mean:.{digits}f}, worst 10 % {worst:.{digits}f}",
        class_=f"m{method.number}",
      )
    )
  return figures


def _quantile_line(
  method: Method, scores: list[np.ndarray], score: Score
) -> Line:
  """Returns a method's quantiles of clients' scores, averaged over its runs."""
  count = min(max(a.size for a in scores), _MAX_QUANTILES)
  shares = (np.arange(count) + 0.5) / count
  quantiles = [a[(shares * a.size).astype(int)] for a in scores]
  values = score.scale * np.array(quantiles)
  spread = values.std(axis=0, ddof=1) if len(values) > 1 else None
  return Line(
    method.label, method.style, 100 * shares, values.mean(axis=0), spread
  )


_NUM_BINS = 20


def _steps(score: Score) -> str:
  """Returns the width of the histogram's bins, in words."""
  if score.sign:
    return f"in steps of {score.limit / _NUM_BINS:g} points"
  return f"in {_NUM_BINS} equal steps"


def histogram_shares(
  scores: Sequence[np.ndarray], start: float = 0.0, end: float = 1.0
) -> np.ndarray:
  """Returns the share of clients in each of 20 bins, averaged over runs."""
  # Accuracies are rounded to float32. Adding half a millionth keeps 0.05, for
  # example, in the bin that starts there.
  places = [np.clip((a - start) / (end - start) + 5e-7, 0, 1) for a in scores]
  return np.mean(
    [np.histogram(a, _NUM_BINS, (0, 1))[0] / len(a) for a in places], axis=0
  )


def draw_histogram(
  method: Method,
  bins: np.ndarray,
  mean: float,
  worst: float,
  frame: Frame,
  identifier: str,
  score: Score = ACCURACY,
) -> Chart:
  """Draws a method's `bins`, with lines at its mean and its worst 10 %."""

  def text(value: float) -> str:
    return f"{value:.{score.short_digits}f}{score.sign}"

  edges = frame.x_pixels(np.linspace(frame.x.low, frame.x.high, _NUM_BINS + 1))
  floor, tops = frame.y_pixels([0])[0], frame.y_pixels(100 * bins)
  bars = "".join(
    box_path(left + 0.5, top, right - left - 1, floor - top)
    for left, right, top in zip(edges, edges[1:], tops, strict=False)
    if floor - top > 0
  )
  lines = [
    Path(
      f"M{frame.x_pixels([value])[0]:.1f} {frame.top}V{floor:.1f}",
      class_,
      f"{name} {text(value)}",
    )
    for name, value, class_ in (
      ("worst 10 %", worst, "worst-line"),
      ("mean", mean, "mean-line"),
    )
    if np.isfinite(value)
  ]
  return frame.drawing(
    identifier,
    f"{score.title} over clients, {method.label}",
    f"Histogram {_steps(score)}; mean {text(mean)}, worst 10 % of the "
    f"clients {text(worst)}.",
    [*frame.axes(), Path(bars, f"bars c{method.style.color}"), *lines],
  )


_EACH_TITLE = "Each client"
_MAX_CLIENTS = 39
_ONE_CHART = 6  # With more clients, there are two charts, side by side.
_LETTER_WIDTH, _GAP = 8.5, 14  # Wide enough for a phone's larger letters.
_LEAST_ROW, _DOT = 36, 11  # Heights in pixels.


def build_each(task: TaskRuns) -> section.Section:
  """Returns the section: charts and a table of single clients' scores."""
  scores = pd.DataFrame(
    {r.path: final_measures.scores_of_run(r) for r in task.runs}
  )
  absence = ""
  if not 0 < len(scores) <= _MAX_CLIENTS:
    absence = f"it has room for 1 to {_MAX_CLIENTS} clients"
  elif scores.isna().any(axis=None):
    absence = "not all runs have the same clients"
  if absence:
    return section.Section(_EACH_TITLE, absence=absence)
  examples = pd.DataFrame(
    {
      run.path: run.last_evaluation.set_index("client_id")["num_examples"]
      for run in task.runs
    }
  )
  # Sort clients by their scores with the first method, the worst first.
  first = scores[[run.path for run in task.methods[0].runs]].mean(axis=1)
  order = first.sort_values(
    kind="stable", ascending=task.score.higher_is_better
  ).index
  # The intervals of methods with one seed are binomial, so accuracies must be
  # shares of examples, not of words.
  are_shares = task.score.is_accuracy and (
    metrics.are_shares_of_examples(
      scores.to_numpy().ravel(), examples.loc[scores.index].to_numpy().ravel()
    )
  )
  rows = [
    _Client(task, client, scores.loc[client], examples.loc[client], are_shares)
    for client in order
  ]
  num_charts = 1 if len(rows) <= _ONE_CHART else 2
  places = np.array_split(np.arange(len(rows)), num_charts)
  x = _x_scale(task, rows)
  seeds = {len(method.runs) > 1 for method in task.methods}
  return section.build(
    _EACH_TITLE,
    "each_client",
    task,
    intervals=final_measures.INTERVALS,
    of_seeds=True in seeds,
    of_examples=False in seeds and are_shares,
    charts=[_chart(task, rows, of_chart, x) for of_chart in places],
    table=_table(task, rows),
  )


class _Client:
  """A client: its id, number of test examples, and results by method."""

  def __init__(
    self,
    task: TaskRuns,
    client: int,
    scores: "pd.Series[float]",
    examples: "pd.Series[int]",
    are_shares: bool,
  ) -> None:
    self.client = client
    self.least, most = int(examples.min()), int(examples.max())
    self.examples = f"{self.least:,}"
    if most > self.least:
      self.examples += f"–{most:,}"
    self.results: list[Result] = []
    for method in task.methods:
      of_seeds = [scores[run.path] for run in method.runs]
      result = final_measures.over_seeds(task.measures["mean"], of_seeds)
      if len(of_seeds) == 1 and are_shares:
        count = examples[method.runs[0].path]
        (low,), (high,) = metrics.wilson_interval(of_seeds, [count])
        interval = Interval(100 * float(low), 100 * float(high))
        result = result._replace(interval=interval)
      self.results.append(result)


def _x_scale(task: TaskRuns, rows: Sequence[_Client]) -> Scale:
  ends = [end for row in rows for result in row.results for end in result.ends]
  known = [end for end in ends if np.isfinite(end)] or [0.0]
  return scale.linear(
    min(known), max(known), bounds=(task.score.lowest, task.score.limit)
  )


def _chart(
  task: TaskRuns, rows: Sequence[_Client], places: np.ndarray, x: Scale
) -> Figure:
  """Returns a chart of the clients `rows[places]`, one below another."""
  score = task.score
  shown = [rows[place] for place in places]
  names = [task.clients.short(row.client) for row in shown]
  height = max(_LEAST_ROW, _DOT * (len(task.methods) + 1))
  letters = max(map(len, [*names, "99,999 examples"]))
  frame = Frame(
    x,
    Scale(len(shown) - 0.5, -0.5, ()),
    x_label=f"{score.noun}{score.in_brackets}",
    height=height * len(shown) + ABOVE_AND_BELOW,
    left=round(_LETTER_WIDTH * letters) + _GAP,
  )
  which = "Each client"
  if len(shown) < len(rows):
    which = f"Clients {places[0] + 1} to {places[-1] + 1} of {len(rows)}"
  right = frame.width - frame.right
  between = frame.y_pixels(np.arange(len(shown) - 1) + 0.5)
  grid = "".join(f"M0 {at:.1f}H{right}" for at in between)
  shapes = [*frame.axes(), Path(frame.vertical_grid() + grid, "grid")]
  descriptions = []
  for place, (row, name) in enumerate(zip(shown, names, strict=True)):
    shapes += _row(task, row, name, place, frame)
    values = ", ".join(
      f"{method.label} {_text(result)}"
      for method, result in zip(task.methods, row.results, strict=True)
    )
    descriptions.append(f"{task.clients.full(row.client)}: {values}")
  drawing = frame.drawing(
    f"{task.identifier}-clients-{places[0]}",
    f"{score.title} of each client",
    "; ".join(descriptions),
    shapes,
  )
  return Figure(drawing, f"{which}: {score.noun}{score.in_brackets}")


def _row(
  task: TaskRuns, row: _Client, name: str, place: int, frame: Frame
) -> list[Shape]:
  middle = float(frame.y_pixels([place])[0])
  # The vertical distance between two methods' points, in units of a row.
  step = _DOT * (frame.y.low - frame.y.high) / frame.inner_height
  points = [
    Point(
      f"{task.clients.full(row.client)}, {method.label}",
      method.style,
      result.mean,
      place + step * (number - (len(task.methods) - 1) / 2),
      _text(result),
      result.interval,
    )
    for number, (method, result) in enumerate(
      zip(task.methods, row.results, strict=True)
    )
    if np.isfinite(result.mean)
  ]
  noun = "example" if row.examples == "1" else "examples"
  left = frame.left - _GAP / 2
  return [
    Text(name, left, middle - 2, "end", "name"),
    Text(f"{row.examples} {noun}", left, middle + 13, "end"),
    *(scatter_chart.draw_point(point, frame) for point in points),
  ]


def _text(result: Result) -> str:
  return f"{result.mean_text}{result.measure.sign}"


def _table(task: TaskRuns, rows: Sequence[_Client]) -> html_tables.Table:
  measure = task.measures["mean"]
  first = html_tables.head(measure).first
  return html_tables.Table(
    f"Test {task.score.noun} of each client{task.score.in_brackets}",
    "Client",
    [
      Head("Test examples", "descending"),
      *(Head(method.label, first) for method in task.methods),
    ],
    [
      Row(
        task.clients.full(row.client),
        [
          Cell(row.least, row.examples),
          *html_tables.column(measure, [r.value for r in row.results]).cells,
        ],
      )
      for row in rows
    ],
  )
