"""Clients that did not count in a round, and why.

The aggregation leaves out a client without examples, and one whose update, loss
or other signals are not finite. It tells who counted.
"""

import collections
from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

NO_EXAMPLES = "no examples"
NOT_FINITE = "not finite"
_ADVICE = {
  NO_EXAMPLES: "the clients have no training examples; check the data",
  NOT_FINITE: "updates or losses were not finite; try a smaller "
  "client_learning_rate",
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


def advise(cohorts: pd.DataFrame | None) -> str:
  """Returns what to say of a run in which no client counted in any round.

  Args:
    cohorts: Its `cohorts.csv`.
  """
  text = "no client counted in any round, so the model is the initial one"
  if cohorts is None or "excluded" not in cohorts:
    return f"{text}."
  found = cohorts["excluded"].value_counts().index
  return "; ".join([text, *(_ADVICE[reason] for reason in found)]) + "."
