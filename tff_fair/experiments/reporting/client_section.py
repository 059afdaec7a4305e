"""Section: the distribution of scores over clients, at the end of runs."""

from collections.abc import Mapping, Sequence

import numpy as np

from tff_fair.experiments.reporting import (
  final_measures,
  line_chart,
  scale,
  section,
)
from tff_fair.experiments.reporting.frame import Frame, box_path
from tff_fair.experiments.reporting.line_chart import Line
from tff_fair.experiments.reporting.markup import Markup, element
from tff_fair.experiments.reporting.methods import MethodRuns, TaskRuns
from tff_fair.experiments.reporting.section import Section
from tff_fair.experiments.scores import ACCURACY, Score
from tff_fair.metrics.statistics import tail_size

_MAX_QUANTILES = 200
_WORST_PERCENT = 10

# For each method, by its number: scores of clients for each run, worst first.
_Scores = Mapping[int, list[np.ndarray]]


def build(task: TaskRuns) -> Section:
  """Returns the section: clients in order, and a histogram for each method."""
  score = task.score
  title = f"{score.title} over clients"
  scores = {method.number: _scores(method) for method in task.methods}
  found = {
    number: of_runs
    for number, of_runs in scores.items()
    if all(clients.size for clients in of_runs)
  }
  if not found:
    return Section(title, absence="no finished run has evaluated its clients")
  diverged = {
    number
    for number, of_runs in found.items()
    if not all(np.isfinite(clients).all() for clients in of_runs)
  }
  found = {n: of_runs for n, of_runs in found.items() if n not in diverged}
  if not found:
    return Section(title, absence=f"no run has finite {score.plural} alone")
  shown = [method for method in task.methods if method.number in found]
  absent = [
    method
    for method in task.methods
    if method.number not in found and method.number not in diverged
  ]
  return Section(
    title,
    [
      section.charts(_ordered(task, shown, found)),
      section.note(
        "The histograms show the share of clients (%) "
        f"{_steps(score)} of {score.noun}",
        ", as a mean over seeds" if task.has_seeds else None,
        f". Solid line: mean {score.noun}. Dashed line: mean {score.noun} of "
        f"the worst 10 % ({final_measures.tail_clients(task, 10)}).",
      ),
      section.charts(_histograms(task, shown, found), class_="charts small"),
      section.without(absent, "their runs have not evaluated any client"),
      section.without(
        [method for method in task.methods if method.number in diverged],
        f"they have infinite {score.plural}",
      ),
    ],
  )


def _scores(method: MethodRuns) -> list[np.ndarray]:
  """Returns scores of clients for each run of a method, the worst first."""
  return [
    final_measures.scores_of_run(run)
    .sort_values(ascending=run.score.higher_is_better)
    .to_numpy()
    for run in method.runs
  ]


def _ordered(
  task: TaskRuns, methods: Sequence[MethodRuns], found: _Scores
) -> Markup:
  score = task.score
  lines = [
    _quantile_line(method, found[method.number], score) for method in methods
  ]
  values = np.concatenate([line.y for line in lines])
  chart = line_chart.draw(
    lines,
    Frame(
      scale.linear(0, 100, is_tight=True),
      scale.linear(
        float(values.min()),
        float(values.max()),
        bounds=(score.lowest, score.limit),
      ),
      x_label=f"clients, from the {score.worst} to the {score.best} (%)",
    ),
    identifier=f"{task.identifier}-ordered",
    title=f"{score.title} of clients in order",
    description=f"Clients from the {score.worst} to the {score.best}. Median: "
    + ", ".join(
      f"{line.label} {np.median(line.y):.{score.short_digits}f}{score.sign}"
      for line in lines
    )
    + ".",
    x_name="share of clients (%)",
    y_unit=score.sign,
    decimals=score.digits,
  )
  return section.figure(
    chart, f"Clients in order: {score.noun}{score.in_brackets}"
  )


def _histograms(
  task: TaskRuns, methods: Sequence[MethodRuns], found: _Scores
) -> list[Markup]:
  score = task.score
  end = score.highest
  if np.isinf(end):
    values = [v for method in methods for v in found[method.number]]
    end = float(np.concatenate(values).max()) or 1.0
  bins = [histogram_shares(found[method.number], end) for method in methods]
  frame = Frame(
    scale.linear(0, score.scale * end, is_tight=True),
    scale.linear(0, 100 * float(np.max(bins)), num_ticks=3, bounds=(0, 100)),
    x_label=f"{score.noun}{score.in_brackets}",
    width=260,
    height=170,
    left=32,
  )
  return [
    _histogram(task, method, found[method.number], bins[place], frame)
    for place, method in enumerate(methods)
  ]


def _histogram(
  task: TaskRuns,
  method: MethodRuns,
  scores: list[np.ndarray],
  bins: np.ndarray,
  frame: Frame,
) -> Markup:
  score = task.score
  mean = score.scale * float(np.mean([a.mean() for a in scores]))
  worst = score.scale * float(
    np.mean([a[: tail_size(_WORST_PERCENT, a.size)].mean() for a in scores])
  )
  drawing = draw_histogram(
    method,
    bins,
    mean,
    worst,
    frame,
    identifier=f"{task.identifier}-histogram-{method.number}",
    score=score,
  )
  digits = score.short_digits
  return section.figure(
    drawing,
    method.label,
    f"mean {mean:.{digits}f}, worst 10 % {worst:.{digits}f}",
    class_=f"m{method.number}",
  )


def _quantile_line(
  method: MethodRuns, scores: list[np.ndarray], score: Score
) -> Line:
  """Returns the score over the share of clients that have no better one."""
  count = min(max(a.size for a in scores), _MAX_QUANTILES)
  shares = (np.arange(count) + 0.5) / count
  values = score.scale * np.array(
    [a[(shares * a.size).astype(int)] for a in scores]
  )
  spread = values.std(axis=0, ddof=1) if len(values) > 1 else None
  return Line(
    method.label,
    method.number,
    method.style,
    100 * shares,
    values.mean(axis=0),
    spread,
  )


# A small histogram for each method: clients by their score.


_NUM_BINS = 20


def _steps(score: Score) -> str:
  """Returns how wide the bins are, in words."""
  if score.sign:
    return f"in steps of {score.limit / _NUM_BINS:g} points"
  return f"in {_NUM_BINS} equal steps"


def histogram_shares(
  scores: Sequence[np.ndarray], end: float = 1.0
) -> np.ndarray:
  """Returns the share of clients in each of 20 equal bins.

  Args:
    scores: For each seed, float[K] in [0, end].
    end: Where the last bin ends.

  Returns:
    float[20], in the mean over seeds; a value between two bins is in the upper.
  """
  # Accuracies are ratios in float32, and bins begin at round numbers: half a
  # millionth keeps 0.05 out of the bin below.
  return np.mean(
    [
      np.histogram(np.clip(a / end + 5e-7, 0, 1), _NUM_BINS, (0, 1))[0] / len(a)
      for a in scores
    ],
    axis=0,
  )


def draw_histogram(
  method: MethodRuns,
  bins: np.ndarray,
  mean: float,
  worst: float,
  frame: Frame,
  identifier: str,
  score: Score = ACCURACY,
) -> Markup:
  """Draws the histogram of a method.

  Args:
    method: The method.
    bins: As `histogram_shares` returns them.
    mean: Mean score, scaled for tables.
    worst: That of the worst 10 % of the clients.
    frame: Where it is drawn: scaled scores, from 0 to the end of the last bin,
      and shares in percent.
    identifier: Unique on the page.
    score: The score.
  """

  def text(value: float) -> str:
    return f"{value:.{score.short_digits}f}{score.sign}"

  edges = frame.x_pixels(np.linspace(0, frame.x.high, _NUM_BINS + 1))
  floor, tops = frame.y_pixels([0])[0], frame.y_pixels(100 * bins)
  bars = "".join(
    box_path(left + 0.5, top, right - left - 1, floor - top)
    for left, right, top in zip(edges, edges[1:], tops, strict=False)
    if floor - top > 0
  )
  return frame.drawing(
    identifier,
    f"{score.title} over clients, {method.label}",
    f"Histogram {_steps(score)}; mean {text(mean)}, worst 10 % of the "
    f"clients {text(worst)}.",
    frame.axes(),
    element("path", d=bars, class_=f"bars c{method.style.color}"),
    [
      element(
        "path",
        element("title", f"{name} {text(value)}"),
        d=f"M{frame.x_pixels([value])[0]:.1f} {frame.top}V{floor:.1f}",
        class_=class_,
      )
      for name, value, class_ in (
        ("worst 10 %", worst, "worst-line"),
        ("mean", mean, "mean-line"),
      )
      if np.isfinite(value)
    ],
  )
