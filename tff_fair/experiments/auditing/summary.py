"""The summary of an audit: statistics over clients, intervals, noise."""

from typing import Any

import numpy as np
import pandas as pd

from tff_fair import metrics
from tff_fair.experiments import spread_noise
from tff_fair.experiments.auditing import scores
from tff_fair.metrics import vectors

# The statistics that have an interval: an extreme of the clients has none.
WITH_INTERVAL = (
  *("mean", "std", "worst_10", "best_10", "percentile_50"),
  *("relative_std", "jain"),
)


def with_intervals(clients: pd.DataFrame) -> pd.DataFrame:
  """Returns a table of clients with Wilson's interval of each accuracy.

  Args:
    clients: One row per client, with accuracy and num_examples, or without an
      accuracy, which then stays as it is.
  """
  accuracy = scores.ACCURACY.name
  if accuracy not in clients:
    return clients
  low, high = metrics.wilson_interval(clients[accuracy], clients[scores.COUNT])
  place = clients.columns.get_loc(accuracy) + 1
  found = clients.copy()
  found.insert(place, f"{accuracy}_low", low)
  found.insert(place + 1, f"{accuracy}_high", high)
  return found


def summarize(clients: pd.DataFrame) -> dict[str, Any]:
  """Summarizes an audit.

  Args:
    clients: One row per client: client, num_examples, and a score.

  Returns:
    `num_clients`; `num_examples`; `score`, the name of the column by which
    clients are compared; `test_NAME` of the score: its statistics over clients,
    each counted once, as `tff_fair.metrics.fairness_summary` names them (the
    worst have the largest errors); `test_NAME_weighted`, its mean by examples;
    `intervals`, of the statistics that have one, `[low, high]` at 95 %. For
    accuracies also `test_accuracy_noise`, the noise in their spread, None if
    nothing tells it; and `equality_p_value`, how likely such a spread is if all
    clients are served equally well.
  """
  score = scores.of_table(clients)
  values = clients[score.name].to_numpy(np.float64)
  count = clients[scores.COUNT].to_numpy(np.float64)
  is_accuracy = score is scores.ACCURACY
  once = np.ones_like(values)
  summary: dict[str, Any] = {
    "num_clients": len(clients),
    "num_examples": int(count.sum()),
    "score": score.name,
    f"test_{score.name}": {
      name: float(statistic(values, once))
      for name, statistic in score.statistics.items()
    },
    f"test_{score.name}_weighted": float(vectors.mean(values, count)),
    "intervals": _intervals(score, values, count if is_accuracy else None),
  }
  if is_accuracy:
    summary[spread_noise.KEY] = spread_noise.of_accuracies(values, count)
    summary["equality_p_value"] = metrics.equality_p_value(values, count)
  return summary


def _intervals(
  score: scores.Score, values: np.ndarray, count: np.ndarray | None
) -> dict[str, list[float]]:
  if count is not None:
    found = metrics.fairness_intervals(values, count, WITH_INTERVAL)
  else:
    found = metrics.bootstrap_intervals(
      {name: score.statistics[name] for name in WITH_INTERVAL}, values
    )
  # JSON has no number for an end that is unknown.
  return {
    name: list(ends) for name, ends in found.items() if np.isfinite(ends).all()
  }
