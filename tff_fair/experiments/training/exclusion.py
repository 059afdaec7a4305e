"""Clients that did not count in a round, and why.

The aggregation leaves out a client without examples, and one whose update, loss
or other signals are not finite. It tells who counted.
"""

from __future__ import annotations

import collections
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

if typing.TYPE_CHECKING:
  import pandas as pd

NO_EXAMPLES = "no examples"
NOT_FINITE = "not finite"
OUT_OF_BOUNDS = "num_clients_out_of_bounds"  # Of secure sums.
_ADVICE = {
  NO_EXAMPLES: "the clients have no training examples; check the data",
  NOT_FINITE: "updates or losses were not finite; try a smaller "
  "client_learning_rate, and look whether features or labels are not scaled",
}


def reasons(
  client_ids: Sequence[int],
  counted: Collection[int] | None,
  num_examples: np.ndarray | None,
) -> np.ndarray:
  """Returns why each client of a cohort did not count; `None` if it did.

  Args:
    client_ids: The clients that reported back.
    counted: Those who counted; `None` where nobody knows.
    num_examples: int[K], training examples of each client, if known.
  """
  if counted is None:
    return np.full(len(client_ids), None)

  def reason(client_id: int) -> str | None:
    if client_id in counted:
      return None
    if num_examples is not None and num_examples[client_id] == 0:
      return NO_EXAMPLES
    return NOT_FINITE

  return np.array([reason(k) for k in client_ids], dtype=object)


def describe_most(excluded: np.ndarray, name: str) -> str | None:
  """Returns words on a round in which more than half did not count, if so.

  Args:
    excluded: What `reasons` returned.
    name: The name of the round.
  """
  counts: collections.Counter[str] = collections.Counter(filter(None, excluded))
  if 2 * counts.total() <= len(excluded):
    return None
  why = ", ".join(f"{n} {reason}" for reason, n in counts.most_common())
  return (
    f"{counts.total()} of {len(excluded)} clients did not count in {name} "
    f"({why})"
  )


def describe_most_of_sums(metrics: Mapping[str, Any], name: str) -> str | None:
  """Does the same where only numbers of clients are known.

  Args:
    metrics: What the aggregation reported.
    name: The name of the round.
  """
  if OUT_OF_BOUNDS not in metrics:
    return None
  counted, excluded, beyond = (
    int(metrics[key])
    for key in ("num_clients", "num_clients_excluded", OUT_OF_BOUNDS)
  )
  others = excluded + beyond
  if others <= counted:
    return None
  return (
    f"{others} of {counted + others} clients did not count in {name} ({beyond} "
    f"out of bounds: try a larger secure_bound; {excluded} for other reasons)"
  )


def advise(cohorts: pd.DataFrame, num_idle_rounds: int, num_rounds: int) -> str:
  """Returns what to say of a run in whose last rounds no client counted.

  Args:
    cohorts: Its `cohorts.csv`.
    num_idle_rounds: The number of these last rounds.
    num_rounds: The number of all rounds.
  """
  last = num_rounds - num_idle_rounds
  text = (
    f"no client counted in the last {num_idle_rounds:,} of {num_rounds:,} "
    f"rounds, so the model is that of round {last:,}"
    if last
    else "no client counted in any round, so the model is the initial one"
  )
  excluded = cohorts["excluded"][cohorts["round"] > last]
  if excluded.isna().all():
    return f"{text}; if sums are secure, try a larger secure_bound."
  found = excluded.value_counts().index
  return "; ".join([text, *(_ADVICE[reason] for reason in found)]) + "."
