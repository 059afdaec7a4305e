"""Compares finalists with the better FedAvg on test data of fresh seeds."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from tff_fair.experiments.analysis import (
  client_results,
  group_measures,
  measures,
  paired,
)
from tff_fair.experiments.analysis.client_results import Clients, ResultsBySeed
from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.analysis.paired import Difference
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.spec.seeds import Seeds as RunSeeds


def compare(
  runs: Iterable[tuple[str, RunSeeds, pd.DataFrame]],
  score: Score,
  finalists: Mapping[str, str],
  criterion: str,
) -> pd.DataFrame:
  """Returns a row for each finalist, the best by the criterion first.

  Args:
    runs: The method, the seeds and the clients' results of each run; at least
      one method is a FedAvg.
    score: The score of the clients.
    finalists: The settings of the finalists, by method.
    criterion: The measure to improve.

  Returns:
    The columns method, settings, is_better, baseline (the FedAvg that is better
    by the criterion), NAME_difference, _low and _high (the differences of the
    criterion and of the mean to that FedAvg), and largest_loss of a client.
  """
  of_methods: dict[str, dict[RunSeeds, list[Clients]]] = {}
  for method, seeds, clients in runs:
    found = group_measures.clients_of(clients, score)
    of_methods.setdefault(method, {})[seeds] = [found]
  rows: dict[str, dict[str, Any]] = {
    method: {"method": method, "settings": settings}
    for method, settings in finalists.items()
  }
  for name in dict.fromkeys([criterion, "mean"]):
    keys = {
      method: np.mean([sort_key(c, score, name) for [c] in seeds.values()])
      for method, seeds in of_methods.items()
      if method not in finalists
    }
    fedavg = min(keys, key=lambda method: keys[method])
    baseline = of_methods[fedavg]
    measure = group_measures.find(name, score)
    compared = _differences(measure, of_methods, finalists, baseline)
    for method, (difference, p_value) in compared.items():
      rows[method] |= {
        f"{name}_difference": difference.estimate,
        f"{name}_difference_low": difference.low,
        f"{name}_difference_high": difference.high,
      }
      if name == criterion:
        is_gain = (difference.estimate > 0) == measure.higher_is_better
        rows[method] |= {
          "is_better": is_gain and p_value < 1 - paired.CONFIDENCE,
          "baseline": fedavg,
          "largest_loss": largest_loss(of_methods[method], baseline, score),
        }
  return pd.DataFrame([*rows.values()]).sort_values(
    f"{criterion}_difference",
    ascending=not group_measures.find(criterion, score).higher_is_better,
    ignore_index=True,
  )


def _differences(
  measure: Measure,
  of_methods: Mapping[str, ResultsBySeed],
  finalists: Iterable[str],
  baseline: ResultsBySeed,
) -> dict[str, tuple[Difference, float]]:
  """Returns Holm-corrected differences, in units of tables, and p-values."""
  assert measure.statistic is not None
  statistic = paired.memoize(measure.statistic)
  found = {
    method: paired.difference(
      statistic, of_methods[method], baseline, measure.span
    )
    for method in finalists
  }
  factors = paired.holm_factors([d.p_value for d in found.values()])
  return {
    method: (
      difference.scaled(measure.scale).corrected(factor),
      factor * difference.p_value,
    )
    for (method, difference), factor in zip(found.items(), factors, strict=True)
  }


def sort_key(clients: Clients, score: Score, criterion: str) -> float:
  """Returns a key that sorts clients' results by a measure, the best first."""
  measure = group_measures.find(criterion, score)
  return measures.sort_key(measure, measures.of_equal(measure, clients))


def largest_loss(
  method: ResultsBySeed, fedavg: ResultsBySeed, score: Score
) -> float:
  """Returns the largest loss of a client against FedAvg, a mean over seeds."""
  changes: dict[int, list[float]] = {}
  for pair in client_results.pairs(method, fedavg):
    [after], [before] = pair.method, pair.baseline
    for client, change in zip(
      pair.ids.tolist(), after.score - before.score, strict=True
    ):
      changes.setdefault(client, []).append(change)
  sign = 1 if score.higher_is_better else -1
  gains = [sign * score.scale * np.mean(found) for found in changes.values()]
  return max(0.0, -float(np.min(gains)))
