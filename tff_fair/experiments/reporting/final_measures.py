"""Measures at the end of the runs of a method, with intervals over seeds."""

import math

import pandas as pd
from scipy import special

from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.evaluations import ChosenEvaluation
from tff_fair.experiments.comparing.measures import Measure, Value
from tff_fair.experiments.reporting.methods import MethodRuns, TaskRuns
from tff_fair.experiments.runs import tables
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.metrics.intervals import CONFIDENCE, Interval
from tff_fair.metrics.statistics import tail_size

# The clients' scores at the end of a run.


def scores_of_run(run: Run) -> "pd.Series[float]":
  """Returns float[K], not scaled, by ascending ids of clients.

  They come from the table of clients if there is one; the table of all
  evaluations may be large.
  """
  name = run.score.name
  if run.clients is not None and f"test_{name}" in run.clients:
    found = tables.seen(run.clients).set_index("client_id")[f"test_{name}"]
  else:
    found = tables.seen(run.last_evaluation).set_index("client_id")[name]
  return found.dropna().astype(float).sort_index()


INTERVALS = f"{100 * CONFIDENCE:.0f}\N{NO-BREAK SPACE}% intervals"


def of_method(
  task: TaskRuns, method: MethodRuns, name: str, prefix: str = ""
) -> Value:
  """Returns a measure of a method over seeds, scaled for tables.

  Args:
    task: The task.
    method: One of its methods.
    name: Name of the measure.
    prefix: Begins the name of its column in the table of evaluations; not for
      measures that have none.

  Returns:
    The value; NaN if a run does not have it.
  """
  if name in measures.WITHOUT_COLUMN:
    values = [_of_clients(run, name) for run in method.runs]
  else:
    column = f"{prefix}{measures.evaluation_column(name, task.score)}"
    values = [_of_run(run, column) for run in method.runs]
  return measures.over_seeds(task.measures[name], values)


def interval(
  method: MethodRuns, measure: Measure, value: Value
) -> Interval | None:
  """Returns Student's t interval of a mean over the seeds of a method.

  Args:
    method: The method.
    measure: The measure.
    value: Its value.

  Returns:
    The interval; None with one seed, where all seeds are the same, or where one
    has no finite value.
  """
  if value.std is None or not 0 < value.std < math.inf:
    return None
  count = len(method.runs)
  t = float(special.stdtrit(count - 1, (1 + CONFIDENCE) / 2))
  reach = t * value.std / math.sqrt(count)
  largest = measure.scale * measure.span
  return Interval(
    max(value.mean - reach, measure.lowest), min(value.mean + reach, largest)
  )


def text(method: MethodRuns, measure: Measure, value: Value, sign: str) -> str:
  """Returns a value in words with its interval, as "mean 57.00 % [50, 64]"."""
  mean = mean_text(measure, value)
  found = interval(method, measure, value)
  if found is None:
    return f"{measure.words} {mean}{sign}"
  low, high = (f"{end:.{measure.digits}f}" for end in found)
  return f"{measure.words} {mean}{sign} [{low}, {high}]"


def mean_text(measure: Measure, value: Value) -> str:
  """Returns a mean as tables show it, without its deviation."""
  return measures.value_text(measure, value._replace(std=None))


def has_honest(method: MethodRuns) -> bool:
  """Returns whether clients attack in a run of a method."""
  return any(
    f"{tables.HONEST}{measures.evaluation_column('mean', run.score)}"
    in run.evaluations
    for run in method.runs
  )


def _of_run(run: Run, column: str) -> float:
  table = run.evaluations
  if column not in table or table.empty:
    return math.nan
  return float(table.sort_values(ROUND)[column].iloc[-1])


def _of_clients(run: Run, name: str) -> float:
  rounds = run.client_evaluations[ROUND]
  if rounds.empty:
    return math.nan
  last = ChosenEvaluation(run, (int(rounds.max()),), honest=False)
  return last.measure(name)


# How many clients a tail is, such as the worst 10 %.


def tail_clients(task: TaskRuns, percent: int) -> str:
  """Returns how many clients a tail is, as "2 of 20 clients".

  Args:
    task: The task, with the runs; their numbers of clients may differ.
    percent: Share of the clients.

  Returns:
    The words; empty if no run has evaluated a client.
  """
  counts = {scores_of_run(run).size for run in task.runs} - {0}
  if not counts:
    return ""
  if len(counts) > 1:
    sizes = [tail_size(percent, count) for count in counts]
    return f"{min(sizes):,} to {max(sizes):,} clients"
  (count,) = counts
  return f"{tail_size(percent, count):,} of {count:,} clients"


def tail_text(task: TaskRuns, name: str) -> str:
  """Returns ": 2 of 20 clients" for a tail, as "worst_10"; else nothing."""
  end, _, percent = name.partition("_")
  if end not in ("worst", "best"):
    return ""
  return f": {tail_clients(task, int(percent))}"
