"""The certificate at the end of a run: how much all clients can still gain."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from tff_fair.experiments.runs import tables

if typing.TYPE_CHECKING:
  import pandas as pd

KEY = "stationarity"  # In the summary of a run.
COLUMN = "aggregator/pareto_stationarity"  # In metrics.csv.
_DESCENDING = "aggregator/share_descending"
_NUM_CLIENTS = "aggregator/num_clients"
_BLOCKING = "blocking_weight"  # In cohorts.csv.
_POSITIVE = 1e-6  # A weight up to it is rounding.


def measured(rounds: pd.DataFrame) -> dict[int, float]:
  """Returns the Pareto stationarity of each round that has one.

  Args:
    rounds: The table of a run's rounds. Without clients, a round has none.
  """
  if COLUMN not in rounds:
    return {}
  found = rounds.dropna(subset=[COLUMN])
  numbers, values = found[tables.ROUND], found[COLUMN].astype(float)
  return dict(zip(numbers.tolist(), values.tolist(), strict=True))


def of_run(
  rounds: pd.DataFrame, cohorts: pd.DataFrame
) -> dict[str, Any] | None:
  """Returns the certificate of the last round that has one.

  Args:
    rounds: The table of a run's rounds.
    cohorts: That of its cohorts.

  Returns:
    The `round`, its `pareto_stationarity` and `share_descending`, the number of
    its clients (`num_clients`), and the ids of those that block (`blocking`),
    which have a positive weight in the point of least norm. None where the run
    has measured nothing.
  """
  found = measured(rounds)
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


def sentence(summary: Mapping[str, Any]) -> str | None:
  """Returns the certificate in words.

  Args:
    summary: That of a finished run.

  Returns:
    "The Pareto stationarity of round 100 is 0.012: ..."; None where the run has
    measured nothing.
  """
  found = summary.get(KEY)
  if found is None:
    return None
  return (
    f"The Pareto stationarity of round {found['round']:,} is "
    f"{found['pareto_stationarity']:.3g}; at 0, no step helps one of its "
    f"{found['num_clients']:,} clients without harm to another. Its own step "
    f"descends for {100 * found['share_descending']:.0f} % of them, and "
    f"{len(found['blocking']):,} of them block."
  )
