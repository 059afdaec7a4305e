"""How far a run's coefficients came from plain weights, in words.

A method whose coefficients hardly differ from the plain weights of the clients
is an average that another method computes, too; a run says so at its end.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import tasks
from tff_fair import methods
from tff_fair.experiments.spec import RunSpec

KEY = "coefficient_change"  # In the summary of a run.
_FEW = 0.01  # A change below it is hardly one.
_PLAIN = "fedavg"  # The method that has plain weights by its definition.


def of_run(
  spec: RunSpec, cohorts: pd.DataFrame, task: tasks.Task
) -> float | None:
  """Returns the largest relative change of a coefficient in a run.

  Args:
    spec: The run.
    cohorts: Its table: round, client_id, coefficient.
    task: What each client counts for.

  Returns:
    The largest |c / p - 1| over all rounds and clients, where p are the plain
    weights of the clients that counted in the round. None where the method has
    no coefficients of its own, or the run has not recorded them.
  """
  own = methods.METHODS[spec.algorithm].factory
  if own is None or spec.algorithm == _PLAIN:
    return None
  values = pd.to_numeric(cohorts["coefficient"], errors="coerce").to_numpy()
  counted = np.isfinite(values)
  if not counted.any():
    return None
  clients = cohorts["client_id"].to_numpy()[counted]
  weights = pd.Series(np.ones(len(clients)))
  if methods.weighs_clients(spec.algorithm):
    if spec.client_weighting == "num_examples":
      weights = pd.Series(task.train.num_examples[clients].astype(np.float64))
    elif spec.client_weighting == "column":
      assert task.client_weights is not None
      weights = pd.Series(task.client_weights[clients])
  rounds = cohorts["round"].to_numpy()[counted]
  plain = weights / weights.groupby(rounds).transform("sum")
  return float(np.abs(values[counted] / plain - 1).max())


def sentence(summary: Mapping[str, Any]) -> str | None:
  """Returns a sentence where the coefficients hardly changed.

  Args:
    summary: That of a finished run.

  Returns:
    "In no round did a client's coefficient differ from its plain weight by
    more than 0.03 %: ..."; None where one did by a percent.
  """
  change = summary.get(KEY)
  if change is None or change >= _FEW:
    return None
  return (
    "In no round did a client's coefficient differ from its plain weight by "
    f"more than {100 * change:.2g} %: the method weighed the clients as FedAvg "
    "does. Stronger hyperparameters would show more of it."
  )
