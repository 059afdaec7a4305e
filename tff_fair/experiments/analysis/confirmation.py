"""Compares a search's finalists with the better FedAvg on fresh seeds.

The last stage of `sweeps.stages` uses it, with clients' results on test data.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from tff_fair.experiments.analysis import (
  comparison_table,
  group_measures,
  measures,
  questions,
)
from tff_fair.experiments.analysis.client_results import Clients, ResultsBySeed
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.spec.seeds import Seeds as RunSeeds
from tff_fair.metrics.intervals import LEVEL


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
    finalists: The finalists' settings, by method.
    criterion: The measure to improve.

  Returns:
    The columns method; settings; baseline, the FedAvg that is better by the
      criterion; is_better, whether the finalist is significantly better than
      the baseline; largest_loss, see `largest_loss`; and, for the criterion and
      the mean as NAME, NAME_difference, the difference from the FedAvg that is
      better by NAME, with its interval's ends, NAME_difference_low and
      NAME_difference_high.
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
    contrasts = comparison_table.contrasts(
      measure,
      [of_methods[method] for method in finalists],
      baseline,
      fedavg,
      questions.OTHER_CLIENTS,
    )
    for method, contrast in zip(finalists, contrasts, strict=True):
      difference = contrast.difference
      rows[method] |= {
        f"{name}_difference": difference.estimate,
        f"{name}_difference_low": difference.low,
        f"{name}_difference_high": difference.high,
      }
      if name == criterion:
        is_gain = (difference.estimate > 0) == measure.higher_is_better
        rows[method] |= {
          "is_better": is_gain and contrast.p_holm < LEVEL,
          "baseline": fedavg,
          "largest_loss": largest_loss(of_methods[method], baseline, score),
        }
  return pd.DataFrame([*rows.values()]).sort_values(
    f"{criterion}_difference",
    ascending=not group_measures.find(criterion, score).higher_is_better,
    ignore_index=True,
  )


def sort_key(clients: Clients, score: Score, criterion: str) -> float:
  """Returns a key that sorts clients' results by a measure, the best first."""
  measure = group_measures.find(criterion, score)
  return measures.sort_key(measure, measures.of_equal(measure, clients))


def largest_loss(
  method: ResultsBySeed, fedavg: ResultsBySeed, score: Score
) -> float:
  """Returns how much the worst-hit client loses against FedAvg, at least 0.

  Each client's loss is a mean over seeds.
  """
  changes, _ = comparison_table.client_changes(method, fedavg, score)
  sign = 1 if score.higher_is_better else -1
  return max(0.0, -float((sign * score.scale * changes).min()))
