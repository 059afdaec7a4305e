"""Compares models with the constant prediction of the most frequent class.

The most frequent class is that of the training examples of all clients that may
take part. Always predicting this class gives a client the accuracy a, the share
of the class in the client's test examples. A model is better at the client if a
is below Wilson's 95 % interval of the model's accuracy there; it is better on
average if the 95 % interval of the mean difference over clients is above 0. AUC
is compared with 1/2 instead, and the balanced accuracy of C classes with 1/C.
"""

from __future__ import annotations

import math
import typing
from collections.abc import Sequence
from typing import Any

import numpy as np

from tff_fair import metrics
from tff_fair.experiments.spec.scores import ACCURACY, Score
from tff_fair.metrics import statistics

if typing.TYPE_CHECKING:
  import pandas as pd

COLUMN = "majority_accuracy"  # A column of tables of clients.
RARE_SHARE = 0.2  # Below this share of the training examples, a class is rare.
_MOST_CLASSES = 4  # With more classes, shares below 0.2 are usual.


def rare_class(counts: np.ndarray) -> int | None:
  """Returns the rarest class by `counts`, if it is rare; else None."""
  if not 2 <= len(counts) <= _MOST_CLASSES or not counts.sum():
    return None
  rarest = int(counts.argmin())
  return rarest if counts[rarest] < RARE_SHARE * counts.sum() else None


def compare(
  clients: pd.DataFrame,
  score: Score,
  counts: np.ndarray,
  names: Sequence[str],
  count_column: str,
  prefix: str = "",
) -> dict[str, Any]:
  """Compares a model with the constant prediction; returns a summary entry."""
  if score.name not in ("auc", "balanced_accuracy"):
    score = ACCURACY
  values = clients[f"{prefix}{score.name}"].to_numpy(np.float64)
  shares = clients[COLUMN].to_numpy(np.float64)
  examples = clients[count_column].to_numpy(np.int64)
  number = int(counts.argmax())
  known = ~np.isnan(values)
  constant = {
    "auc": np.full(shares.shape, 0.5),
    "balanced_accuracy": np.full(shares.shape, 1 / len(counts)),
  }.get(score.name, shares)
  differences = (values - constant)[known]
  (ends,) = metrics.bootstrap_intervals(
    {"mean": statistics.SIGNED_STATISTICS["mean"]}, differences
  ).values()
  rare = rare_class(counts)
  found: dict[str, Any] = {
    "class": names[number],
    "share": float(counts[number] / counts.sum()),
    "mean": float(shares.mean()),
    "weighted": float(np.average(shares, weights=examples)),
    "score": score.name,
    "reference": float(constant[known].mean()),
    "difference": float(differences.mean()),
    "low": float(ends.low),
    "high": float(ends.high),
    "is_better": bool(
      differences.mean() > 0 if math.isnan(ends.low) else ends.low > 0
    ),
    "num_classes": len(counts),
  }
  if rare is not None:
    found["rare_class"] = names[rare]
  if score.is_accuracy:
    low, _ = metrics.wilson_interval(values, examples)
    # If the constant prediction has accuracy 1, equalling it is good enough.
    is_open = (shares >= low) & ~((shares == 1) & (values == 1))
    found |= {"not_better": int(is_open.sum()), "num_clients": len(values)}
  return found
