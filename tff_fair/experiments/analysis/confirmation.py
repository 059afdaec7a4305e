"""Finalists against the better FedAvg, by the test rows of fresh seeds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tff_fair.experiments.analysis import federations, measures
from tff_fair.experiments.spec.scores import Score

_CRITERION = "confirmed"  # What `federations` calls that by which one chose.


def rows_of(
  runs: Iterable[tuple[str, int, pd.DataFrame]], score: Score
) -> pd.DataFrame:
  """Returns a row for each run and client."""
  return pd.concat(
    clients.assign(
      federation="",
      method=method,
      seed=seed,
      client=clients["client_id"],
      **{f"score_{_CRITERION}": clients[score.name]},
    )
    for method, seed, clients in runs
  )


def compare(
  rows: pd.DataFrame,
  score: Score,
  finalists: Mapping[str, str],
  criterion: str,
) -> pd.DataFrame:
  """Returns a row for each finalist, the best by the criterion first.

  Args:
    rows: As `rows_of` returns them, also of one or more FedAvgs.
    score: The score of the clients.
    finalists: The settings of the finalists, by method.
    criterion: The measure that is to become better.

  Returns:
    method, settings, is_better, baseline (the FedAvg that is better by the
    criterion), the differences of the criterion and of the mean to the better
    FedAvg, NAME_difference, _low and _high, and largest_loss of a client.
  """
  found: dict[str, dict[str, Any]] = {
    method: {"method": method, "settings": settings}
    for method, settings in finalists.items()
  }
  fedavgs = [name for name in rows["method"].unique() if name not in found]
  for column in dict.fromkeys([criterion, "mean"]):
    fedavg = _better(rows, score, fedavgs, column)
    compared = federations.compare(
      rows[rows["method"].isin([fedavg, *found])],
      fedavg,
      criterion=_CRITERION,
      columns=[column],
    )
    for result in compared:
      row, difference = found[result.method], result.difference
      row[f"{column}_difference"] = difference.estimate
      row[f"{column}_difference_low"] = difference.low
      row[f"{column}_difference_high"] = difference.high
      if column == criterion:
        row["is_better"] = result.verdict == "gain"
        row["baseline"] = fedavg
        row["largest_loss"] = largest_loss(rows, score, result.method, fedavg)
  return pd.DataFrame([*found.values()]).sort_values(
    f"{criterion}_difference",
    ascending=not measures.of(score)[criterion].higher_is_better,
    ignore_index=True,
  )


def _better(
  rows: pd.DataFrame, score: Score, names: Sequence[str], column: str
) -> str:
  """Returns the method that has more of a measure, over seeds."""

  def key(name: str) -> float:
    seeds = rows[rows["method"] == name].groupby("seed")
    return float(np.mean([sort_key(c, score, column) for _, c in seeds]))

  return min(names, key=key)


def sort_key(clients: pd.DataFrame, score: Score, criterion: str) -> float:
  """Returns a measure of clients as a key to sort by, the best first."""
  found = measures.of_clients(clients, score)[criterion]
  return measures.sort_key(measures.of(score)[criterion], found)


def largest_loss(
  rows: pd.DataFrame, score: Score, method: str, fedavg: str
) -> float:
  """Returns how much a method's worst-off client loses against FedAvg."""
  means = rows.groupby(["method", "client"])[score.name].mean() * score.scale
  change = means[method] - means[fedavg]
  gain = change if score.higher_is_better else -change
  return float(max(0.0, -gain.min()))
