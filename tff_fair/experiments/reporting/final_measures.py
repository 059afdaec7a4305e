"""Measures at the end of the runs of a method."""

import math

from tff_fair.experiments.comparing import client_statistics, measures
from tff_fair.experiments.comparing.evaluations import Evaluation
from tff_fair.experiments.comparing.measures import Value
from tff_fair.experiments.reporting.methods import Method
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.scores import ACCURACY, Score

HONEST = "honest/"  # Before columns without the clients that attack.


def of_method(
  method: Method, name: str, prefix: str = "", score: Score = ACCURACY
) -> Value:
  """Returns a measure of a method over seeds, scaled for tables.

  Args:
    method: The method.
    name: Name of the measure.
    prefix: Begins the name of its column in the table of evaluations; not for
      measures that have none.
    score: The score of the runs.

  Returns:
    The value; NaN if a run does not have it.
  """
  if name in client_statistics.WITHOUT_COLUMN:
    values = [_of_clients(run, name) for run in method.runs]
  else:
    column = f"{prefix}{measures.evaluation_column(name, score)}"
    values = [_of_run(run, column) for run in method.runs]
  return measures.over_seeds(measures.of(score)[name], values)


def has_honest(method: Method) -> bool:
  """Returns whether clients attack in a run of a method."""
  return any(
    f"{HONEST}{measures.evaluation_column('mean', run.score)}"
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
  last = Evaluation(run, (int(rounds.max()),), honest=False)
  return last.measure(name)
