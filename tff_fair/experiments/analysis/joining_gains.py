"""Summarizes gains from joining, and scores of clients that join late or never.

Up to three models are compared at each client: the federation's, a model that
the client trained alone, and a model trained on pooled data.

A client gains if its score in the federation is better than with the model that
it trained alone. `tff_fair.metrics.gains` computes the test and the interval of
each client; p-values have Holm's correction for the clients. If the outputs of
both models are exchangeable, example by example, the probability that any
client's gain or loss is reported is at most 5 %. For accuracies, equal
expectations are enough; for other scores, they are not.
"""

from __future__ import annotations

import math
import typing
from typing import Any

import numpy as np

from tff_fair import metrics
from tff_fair.experiments.runs import tables
from tff_fair.experiments.spec.scores import Score
from tff_fair.metrics.intervals import LEVEL

if typing.TYPE_CHECKING:
  import pandas as pd

# Prefixes of scores' names in clients.csv, by the kind of model.
LOCAL, POOLED, FINETUNED = "local", "pooled", "finetuned"
EPOCHS = "finetuned_epochs"
COLUMNS = ("gain", "gain_low", "gain_high", "gain_p_value")
GAIN, LOW, HIGH, P_VALUE = COLUMNS


def of_clients(clients: pd.DataFrame, score: Score) -> dict[str, Any] | None:
  """Summarizes gains from joining; None without a local or pooled model."""
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
  if (name := f"{FINETUNED}_{score.name}") in clients:
    found[FINETUNED] = float(known[name].mean())
  if GAIN in clients:
    gains = clients.dropna(subset=[GAIN])
    found |= {
      **_counts(clients, ""),
      "mean": float(gains[GAIN].mean()),
      "std": float(gains[GAIN].std(ddof=0)),
      "min": float(gains[GAIN].min()),
      "max": float(gains[GAIN].max()),
      "percentile_50": float(gains[GAIN].median()),
    }
  return found


def _counts(clients: pd.DataFrame, prefix: str) -> dict[str, int]:
  """Counts the clients that gain or lose significantly, or do neither."""
  gains = clients.dropna(subset=[f"{prefix}{GAIN}"])
  is_significant = gains[f"{prefix}{P_VALUE}"] < LEVEL
  sign = gains[f"{prefix}{GAIN}"]
  return {
    "gaining": int((is_significant & (sign > 0)).sum()),
    "losing": int((is_significant & (sign < 0)).sum()),
    "undecided": int((~is_significant).sum()),
  }


def of_fine_tuned(clients: pd.DataFrame, score: Score) -> dict[str, Any] | None:
  """Summarizes fine-tuned models' scores; None without fine-tuning."""
  name = f"{FINETUNED}_{score.name}"
  if name not in clients:
    return None
  known = clients.dropna(subset=[name])
  prefix = f"{FINETUNED}_"
  return {
    **score.summarize(known[name].to_numpy(np.float64)),
    "epochs": float(known[EPOCHS].mean()),
    **(_counts(clients, prefix) if f"{prefix}{GAIN}" in clients else {}),
  }


# The share of future clients for which a lower bound on scores holds, and the
# bound's confidence. Accuracies are bounded as if a client had infinitely many
# examples, other scores as on test data of the same size.


SHARE, CONFIDENCE = 0.8, 0.95
_MISS = 0.1  # Largest probability that an accuracy's lower bound is too high.


def of_unseen_clients(
  clients: pd.DataFrame, score: Score
) -> dict[str, Any] | None:
  """Summarizes the scores of clients that did not take part, if any."""
  if tables.UNSEEN not in clients:
    return None
  name = f"test_{score.name}"
  rows = clients[clients[tables.UNSEEN]].dropna(subset=[name])
  values = rows[name].to_numpy(np.float64)
  found = {
    "num_clients": len(rows),
    **unseen_client_bound(values, rows["num_test_examples"].to_numpy(), score),
  }
  if len(values):
    sign = 1 if score.higher_is_better else -1
    found["mean"] = float(values.mean())
    found["worst"] = sign * float((sign * values).min())
    if (tuned := f"{FINETUNED}_{score.name}") in rows:
      found[FINETUNED] = float(rows[tuned].mean())
  return found


def unseen_client_bound(
  values: np.ndarray, examples: np.ndarray, score: Score
) -> dict[str, Any]:
  """Returns a lower bound on scores of future clients, for a summary."""
  is_share = score.is_accuracy and metrics.are_shares_of_examples(
    values, examples
  )
  below = (1 - SHARE) * (1 - _MISS if is_share else 1)
  found: dict[str, Any] = {
    "share": SHARE,
    "confidence": CONFIDENCE,
    "needed": math.ceil(math.log(1 - CONFIDENCE) / math.log(1 - below)),
  }
  if len(values) and np.isfinite(values).all():
    sign = 1 if score.higher_is_better else -1
    least = sign * metrics.unseen_client_bound(
      sign * values, SHARE, CONFIDENCE, examples if is_share else None
    )
    if not math.isnan(least):
      found["bound"] = least
  return found


def of_late_clients(
  evaluations: pd.DataFrame, score: Score
) -> dict[str, Any] | None:
  """Returns mean scores before and after late clients join, if any do."""
  if tables.JOIN_ROUND not in evaluations:
    return None
  rows = tables.drop_unseen(evaluations).sort_values(tables.ROUND)
  is_late = rows[tables.JOIN_ROUND] > 1
  first = int(rows.loc[is_late, tables.JOIN_ROUND].min())
  joins = rows[tables.JOIN_ROUND].where(is_late, first)
  found: dict[str, Any] = {"round": first}
  for name, chosen in (("joining", is_late), ("others", ~is_late)):
    of_group = rows[chosen].dropna(subset=[score.name])
    earlier = of_group[of_group[tables.ROUND] < joins[of_group.index]]
    before, after = (
      table.groupby(tables.CLIENT)[score.name].last().astype(float)
      for table in (earlier, of_group)
    )
    found[name] = {
      "num_clients": len(after),
      "before": float(before.mean()),
      "after": float(after.mean()),
    }
  return found
