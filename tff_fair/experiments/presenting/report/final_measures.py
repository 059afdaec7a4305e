"""Measures of runs' last evaluations: intervals, and a section of tables."""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pandas as pd
from scipy import special

from tff_fair.experiments.analysis import measures
from tff_fair.experiments.analysis.chosen_evaluations import (
  ChosenEvaluation,
  once_per_run,
)
from tff_fair.experiments.analysis.measures import Measure, Value
from tff_fair.experiments.presenting.report import html_tables, section
from tff_fair.experiments.presenting.report.html_tables import Column, Table
from tff_fair.experiments.presenting.report.task_runs import Method, TaskRuns
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.spec.scores import BY_NAME
from tff_fair.metrics.intervals import CONFIDENCE, Interval
from tff_fair.metrics.statistics import tail_size


@once_per_run
def scores_of_run(run: Run) -> "pd.Series[float]":
  """Returns the clients' unscaled scores, by client id in ascending order."""
  scores = tables.drop_unseen(run.last_evaluation).set_index("client_id")
  return scores[run.score.name].dropna().astype(float).sort_index()


INTERVALS = f"{100 * CONFIDENCE:.0f}\N{NO-BREAK SPACE}% intervals"


class Result(NamedTuple):
  """A measure's mean over a method's seeds, and its interval, both scaled."""

  measure: Measure
  value: Value
  interval: Interval | None  # From Student's t; None if unknown.

  @property
  def mean(self) -> float:
    """The mean over seeds."""
    return self.value.mean

  @property
  def ends(self) -> tuple[float, ...]:
    """The ends of the interval; only the mean if there is no interval."""
    return self.interval or (self.mean,)

  @property
  def mean_text(self) -> str:
    """The mean as tables show it, without the standard deviation."""
    return measures.value_text(self.measure, self.value._replace(std=None))

  @property
  def text(self) -> str:
    """The result in words, such as "mean 57.00 % [50.00, 64.00]"."""
    mean_words = f"{self.measure.words} {self.mean_text}{self.measure.sign}"
    if self.interval is None:
      return mean_words
    low, high = (f"{end:.{self.measure.digits}f}" for end in self.interval)
    return f"{mean_words} [{low}, {high}]"


def over_seeds(measure: Measure, values: Sequence[float]) -> Result:
  """Returns the result of a measure from its unscaled values, one per seed."""
  value, count = measures.over_seeds(measure, values), len(values)
  if value.std is None or not 0 < value.std < math.inf:
    return Result(measure, value, None)
  t = float(special.stdtrit(count - 1, (1 + CONFIDENCE) / 2))
  reach = t * value.std / math.sqrt(count)
  low = max(value.mean - reach, measure.scale * measure.lowest)
  high = min(value.mean + reach, measure.scale * measure.highest)
  return Result(measure, value, Interval(low, high))


def of_method(
  task: TaskRuns, method: Method, name: str, prefix: str = ""
) -> Result:
  """Returns the measure `name` of a method, from its runs' last evaluations.

  `prefix` selects other columns, such as those of honest clients.
  """
  measure = task.measures[name]
  stored = measure._replace(column=f"{prefix}{measure.column}")
  return over_seeds(measure, [_final_value(run, stored) for run in method.runs])


def column(
  task: TaskRuns, methods: Sequence[Method], name: str, prefix: str = ""
) -> Column:
  """Returns the column of a measure; the arguments are those of `of_method`."""
  values = [of_method(task, method, name, prefix).value for method in methods]
  return html_tables.column(task.measures[name], values)


def _has_honest(method: Method) -> bool:
  return any(
    f"{tables.HONEST}{measures.by_name(run.score)['mean'].column}"
    in run.evaluations
    for run in method.runs
  )


def _final_value(run: Run, measure: Measure) -> float:
  """Returns a measure's unscaled value in a run's last evaluation, or NaN."""
  table = run.evaluations
  if table.empty or (measure.is_stored and measure.column not in table):
    return math.nan
  last = ChosenEvaluation(run, (int(table[ROUND].max()),), honest=False)
  return last.value(measure)


def tail_clients(task: TaskRuns, percent: int) -> str:
  """Returns the size of a tail, such as "2 of 20 clients", if known."""
  counts = {scores_of_run(run).size for run in task.runs} - {0}
  if not counts:
    return ""
  if len(counts) > 1:
    sizes = [tail_size(percent, count) for count in counts]
    return f"{min(sizes):,} to {max(sizes):,} clients"
  (count,) = counts
  return f"{tail_size(percent, count):,} of {count:,} clients"


def tail_text(task: TaskRuns, name: str) -> str:
  """Returns ": 2 of 20 clients" for a tail such as "worst_10", else ""."""
  end, _, percent = name.partition("_")
  is_tail = end in ("worst", "best")
  clients = tail_clients(task, int(percent)) if is_tail else ""
  return f": {clients}" if clients else ""


_PERCENTS = (5, 10, 20, 30)
_TAILS = tuple(f"{end}_{q}" for end in ("worst", "best") for q in _PERCENTS)
_ENDS = ("mean", "std", *_TAILS)
_MORE = (
  *("variance", "min", "percentile_10", "percentile_50"),
  *("percentile_90", "max"),
)
_UNIFORMITY = ("relative_std", "angle", "kl_uniform", "entropy", "jain", "gini")
_BY_EXAMPLES = (
  *("weighted", "weighted_std"),
  *(f"weighted_worst_{q}" for q in _PERCENTS),
)
# Measures that exist only if the score is the accuracy.
_ERROR = tuple(
  f"{by}{name}"
  for by in ("", "weighted_")
  for name in ("error", "error_relative_std")
)
_LOSS = ("loss", "loss_std", "loss_max")


def build(task: TaskRuns) -> section.Section:
  """Returns the section: tables of all final measures."""
  score, honest = task.score, None
  if any(map(_has_honest, task.methods)):
    caption = f"Test {score.noun} over honest clients only{score.in_brackets}"
    honest = _table(task, caption, _ENDS, tables.HONEST)
  shown = [*_of_score(task), *map(_of_other, score.extra_scores)]
  return section.build(
    "All measures",
    "measures",
    task,
    honest=honest,
    tables={
      title: _table(task, caption, names)
      for title, caption, names in shown
      if names
    },
  )


def _of_score(task: TaskRuns) -> Iterator[tuple[str, str, Sequence[str]]]:
  """Yields title, caption and measures of each table of the runs' score."""
  score = task.score
  test, unit = f"Test {score.noun}", score.sign.strip()
  sizes = ((q, tail_text(task, f"worst_{q}")) for q in _PERCENTS)
  tails = "".join(f"; {q} %{size}" for q, size in sizes if size)
  more = f" ({unit}; variance in {unit}²)" if unit else ""
  yield (
    "Worst and best clients",
    f"{test} over clients{score.in_brackets}{tails}",
    _ENDS,
  )
  yield "Percentiles and variance", f"{test} over clients{more}", _MORE
  yield (
    "Uniformity and loss",
    f"Uniformity of {score.plural}, and test loss",
    (*_UNIFORMITY, *_LOSS),
  )
  yield (
    "By examples",
    f"{test}, clients weighted by their test examples{score.in_brackets}",
    _BY_EXAMPLES,
  )
  yield (
    "Error",
    f"Test error, which is 100 − {score.noun}{score.in_brackets}",
    [name for name in _ERROR if name in task.measures],
  )


def _of_other(name: str) -> tuple[str, str, Sequence[str]]:
  """Returns title, caption and measures of an extra score's table."""
  score = BY_NAME[name]
  return (
    score.title,
    f"Test {score.noun} over clients{score.in_brackets}",
    [*measures.extra_measures(score)],
  )


def _table(
  task: TaskRuns, caption: str, names: Sequence[str], prefix: str = ""
) -> Table:
  columns = [column(task, task.methods, name, prefix) for name in names]
  return html_tables.of_methods(caption, task.methods, columns)
