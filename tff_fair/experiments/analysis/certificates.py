"""Computes a run's Pareto stationarity, and its method's distance from FedAvg.

Both are entries of the run's summary.
"""

from typing import Any

import numpy as np
import pandas as pd

import tasks
from tff_fair import methods
from tff_fair.experiments.runs import tables
from tff_fair.experiments.spec.run_spec import RunSpec

STATIONARITY_COLUMN = "aggregator/pareto_stationarity"  # In metrics.csv.
_DESCENDING = "aggregator/share_descending"
_NUM_CLIENTS = "aggregator/num_clients"
_BLOCKING = "blocking_weight"  # In cohorts.csv.
_POSITIVE = 1e-6  # Smaller weights are rounding errors.


def measured_stationarity(rounds: pd.DataFrame) -> dict[int, float]:
  """Returns the Pareto stationarity of each round that measured it."""
  if STATIONARITY_COLUMN not in rounds:
    return {}
  found = rounds.dropna(subset=[STATIONARITY_COLUMN])
  of_rounds = found.set_index(tables.ROUND)[STATIONARITY_COLUMN]
  measured: dict[int, float] = of_rounds.astype(float).to_dict()
  return measured


def stationarity(
  rounds: pd.DataFrame, cohorts: pd.DataFrame
) -> dict[str, Any] | None:
  """Returns the last measured Pareto stationarity and its details, or None."""
  found = measured_stationarity(rounds)
  if not found:
    return None
  round_num = max(found)
  last = rounds[rounds[tables.ROUND] == round_num].iloc[0]
  clients = cohorts[cohorts[tables.ROUND] == round_num]
  blocking = clients[clients[_BLOCKING].astype(float) > _POSITIVE]
  return {
    "round": round_num,
    "pareto_stationarity": found[round_num],
    "share_descending": float(last[_DESCENDING]),
    "num_clients": int(last[_NUM_CLIENTS]),
    "blocking": blocking[tables.CLIENT].astype(int).tolist(),
  }


def coefficient_change(
  spec: RunSpec, cohorts: pd.DataFrame, task: tasks.Task
) -> float | None:
  """Returns the largest |c / p - 1| for coefficients c and client weights p.

  If it is small, the run reports that its method weighs clients as FedAvg does.
  Returns None for FedAvg, whose coefficients are the client weights by
  definition.
  """
  factory = methods.method(spec.algorithm).factory
  if factory is None or spec.algorithm == "fedavg":
    return None
  values = pd.to_numeric(cohorts["coefficient"], errors="coerce").to_numpy()
  counted = np.isfinite(values)
  if not counted.any():
    return None
  clients = cohorts["client_id"].to_numpy()[counted]
  weights = pd.Series(np.ones(len(clients)))
  if methods.method(spec.algorithm).weighs_clients:
    if spec.client_weighting == "num_examples":
      weights = pd.Series(task.train.num_examples[clients].astype(np.float64))
    elif spec.client_weighting == "column":
      assert task.client_weights is not None
      weights = pd.Series(task.client_weights[clients])
  rounds = cohorts["round"].to_numpy()[counted]
  usual = weights / weights.groupby(rounds).transform("sum")
  return float(np.abs(values[counted] / usual - 1).max())
