"""Is joining worth it: clients alone, in the federation, and on pooled data.

A client gains where its score in the federation is better than that of the
model that it trained alone. `tff_fair.metrics.gains` has the test and the
interval of each client; p-values have Holm's correction for the clients, so
that where joining changes nothing, the probability that any client is told to
gain or lose is 5 % at most.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import Any

from tff_fair.experiments.scores import Score

if typing.TYPE_CHECKING:
  import pandas as pd

KEY = "joining"  # In the summary of a run.
LOCAL, POOLED = "local", "pooled"  # Before the score's name in clients.csv.
GAIN, LOW, HIGH, P_VALUE = COLUMNS = (
  "gain",
  "gain_low",
  "gain_high",
  "gain_p_value",
)
LEVEL = 0.05


def of_clients(clients: pd.DataFrame, score: Score) -> dict[str, Any] | None:
  """Returns what joining brings, over the clients that have a gain.

  Args:
    clients: The table of a run's clients.
    score: The score of the run.

  Returns:
    `gaining`, `losing` and `undecided`, numbers of clients; `mean`, `std`,
    `min`, `max` and `percentile_50` of the gains, positive where joining is
    better; `federated`, and `local` and `pooled` where they were trained: the
    means of the score over clients. None where nothing was trained.
  """
  known = clients.dropna(subset=[f"test_{score.name}"])
  means = {
    kind: float(known[f"{kind}_{score.name}"].mean())
    for kind in (LOCAL, POOLED)
    if f"{kind}_{score.name}" in clients
  }
  if not means:
    return None
  found: dict[str, Any] = {
    "federated": float(known[f"test_{score.name}"].mean()),
    **means,
  }
  if GAIN in clients:
    gains = clients.dropna(subset=[GAIN])
    is_told = gains[P_VALUE] < LEVEL
    found |= {
      "gaining": int((is_told & (gains[GAIN] > 0)).sum()),
      "losing": int((is_told & (gains[GAIN] < 0)).sum()),
      "undecided": int((~is_told).sum()),
      "mean": float(gains[GAIN].mean()),
      "std": float(gains[GAIN].std(ddof=0)),
      "min": float(gains[GAIN].min()),
      "max": float(gains[GAIN].max()),
      "percentile_50": float(gains[GAIN].median()),
    }
  return found


def sentence(summary: Mapping[str, Any], score: Score) -> str | None:
  """Returns what joining brings, in words; None where nothing was trained.

  Args:
    summary: That of a finished run.
    score: The score of the run.
  """
  found = summary.get(KEY)
  if found is None:
    return None

  def text(kind: str) -> str:
    return f"{score.number(found[kind])}{score.sign}"

  others = [
    f"{words} {text(kind)}"
    for kind, words in (
      (LOCAL, "alone the clients reach"),
      (POOLED, "one model on all data in one place"),
    )
    if kind in found
  ]
  told = (
    f"Mean {score.noun} in the federation {text('federated')}; "
    f"{', '.join(others)}."
  )
  if "gaining" not in found:
    return told
  number = found["gaining"] + found["losing"] + found["undecided"]
  return (
    f"{told} Of {number:,} clients, {found['gaining']:,} gain from joining, "
    f"{found['losing']:,} lose, and {found['undecided']:,} cannot be told: "
    f"gains from {score.number(found['min'])} to {score.number(found['max'])}, "
    f"median {score.number(found['percentile_50'])}."
  )
