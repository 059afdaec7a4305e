"""Section: the distribution of accuracy over clients, at the end of runs."""

from collections.abc import Mapping, Sequence

import numpy as np

from tff_fair.experiments.reporting import (
  final_accuracies,
  histogram,
  line_chart,
  scale,
  section,
  tails,
)
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.line_chart import Line
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import Method, TaskRuns
from tff_fair.experiments.reporting.section import Section
from tff_fair.metrics.statistics import tail_size

_TITLE = "Accuracy over clients"
_MAX_QUANTILES = 200
_WORST_PERCENT = 10

# For each method, by its number: ascending accuracies of clients for each run.
_Accuracies = Mapping[int, list[np.ndarray]]


def build(task: TaskRuns) -> Section:
  """Returns the section: clients in order, and a histogram for each method."""
  accuracies = {method.number: _accuracies(method) for method in task.methods}
  found = {
    number: of_runs
    for number, of_runs in accuracies.items()
    if all(clients.size for clients in of_runs)
  }
  if not found:
    return Section(_TITLE, absence="no finished run has evaluated its clients")
  shown = [method for method in task.methods if method.number in found]
  absent = [method for method in task.methods if method.number not in found]
  return Section(
    _TITLE,
    [
      section.charts(_ordered(task, shown, found)),
      section.note(
        "The histograms show the share of clients (%) in steps of 5 points of "
        "accuracy",
        ", as a mean over seeds" if task.has_seeds else None,
        ". Solid line: mean accuracy. Dashed line: mean accuracy of the worst "
        f"10 % ({tails.clients(task, 10)}).",
      ),
      section.charts(_histograms(task, shown, found), class_="charts small"),
      section.without(absent, "their runs have not evaluated any client"),
    ],
  )


def _accuracies(method: Method) -> list[np.ndarray]:
  """Returns ascending accuracies of clients for each run of a method."""
  return [
    np.sort(final_accuracies.of_run(run).to_numpy()) for run in method.runs
  ]


def _ordered(
  task: TaskRuns, methods: Sequence[Method], found: _Accuracies
) -> Markup:
  lines = [_quantile_line(method, found[method.number]) for method in methods]
  values = np.concatenate([line.y for line in lines])
  chart = line_chart.draw(
    lines,
    Frame(
      scale.linear(0, 100, is_tight=True),
      scale.linear(float(values.min()), float(values.max()), bounds=(0, 100)),
      x_label="clients, from the least accurate to the most (%)",
    ),
    identifier=f"{task.identifier}-ordered",
    title="Accuracy of clients in order",
    description="Clients from the least accurate to the most. Median: "
    + ", ".join(f"{line.label} {np.median(line.y):.1f} %" for line in lines)
    + ".",
    x_name="share of clients (%)",
    y_unit=" %",
  )
  return section.figure(chart, "Clients in order: accuracy (%)")


def _histograms(
  task: TaskRuns, methods: Sequence[Method], found: _Accuracies
) -> list[Markup]:
  bins = [histogram.shares(found[method.number]) for method in methods]
  frame = Frame(
    scale.linear(0, 100, is_tight=True),
    scale.linear(0, 100 * float(np.max(bins)), num_ticks=3, bounds=(0, 100)),
    x_label="accuracy (%)",
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
  method: Method,
  accuracies: list[np.ndarray],
  bins: np.ndarray,
  frame: Frame,
) -> Markup:
  mean = 100 * float(np.mean([a.mean() for a in accuracies]))
  worst = 100 * float(
    np.mean([a[: tail_size(_WORST_PERCENT, a.size)].mean() for a in accuracies])
  )
  drawing = histogram.draw(
    method,
    bins,
    mean,
    worst,
    frame,
    identifier=f"{task.identifier}-histogram-{method.number}",
  )
  return section.figure(
    drawing,
    method.label,
    f"mean {mean:.1f}, worst 10 % {worst:.1f}",
    class_=f"m{method.number}",
  )


def _quantile_line(method: Method, accuracies: list[np.ndarray]) -> Line:
  """Returns accuracy over the share of clients that have no more."""
  count = min(max(a.size for a in accuracies), _MAX_QUANTILES)
  shares = (np.arange(count) + 0.5) / count
  values = 100 * np.array(
    [a[(shares * a.size).astype(int)] for a in accuracies]
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
