"""What a run is judged by: statistics over clients, and which way is better."""

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from tff_fair.metrics import summary


class Measure(NamedTuple):
  """A statistic over the clients of a run.

  Attributes:
    title: Its name in tables.
    higher_is_better: Which way is better.
    scale: What it is multiplied by for a table: 100 for percent.
    digits: Digits after the point in a table.
  """

  title: str
  higher_is_better: bool
  scale: float = 100.0
  digits: int = 2


def _tails(end: str, title: str) -> dict[str, Measure]:
  return {
    f"{end}_{share}": Measure(f"{title} {share} %", True)
    for share in (5, 10, 20, 30)
  }


MEASURES: Mapping[str, Measure] = {
  "mean": Measure("mean", True),
  "weighted": Measure("weighted mean", True),
  "std": Measure("std", False),
  "variance": Measure("variance", False, 100.0**2),
  "min": Measure("min", True),
  "max": Measure("max", True),
  **_tails("worst", "worst"),
  **_tails("best", "best"),
  "percentile_10": Measure("percentile 10", True),
  "percentile_50": Measure("median", True),
  "percentile_90": Measure("percentile 90", True),
  "relative_std": Measure("relative std", False, 1.0, 4),
  "angle": Measure("angle (°)", False, 1.0),
  "kl_uniform": Measure("KL to uniform", False, 1.0, 4),
  "entropy": Measure("entropy", True, 1.0, 4),
  "jain": Measure("Jain's index", True, 1.0, 4),
  "loss": Measure("loss", False, 1.0, 4),
  "loss_std": Measure("loss std", False, 1.0, 4),
  "loss_max": Measure("largest loss", False, 1.0, 4),
}


def of_clients(clients: pd.DataFrame) -> dict[str, float]:
  """Returns all measures of one evaluation.

  Args:
    clients: One row per client: num_examples, loss, accuracy in [0, 1].

  Returns:
    Values by the names in `MEASURES`, not scaled. All clients count once but
    in `weighted`.

  Raises:
    ValueError: If there are no clients, or an accuracy is none.
  """
  accuracy = clients["accuracy"].to_numpy(np.float64)
  loss = clients["loss"].to_numpy(np.float64)
  return {
    **summary.fairness_summary(accuracy),
    "weighted": float(np.average(accuracy, weights=clients["num_examples"])),
    "loss": float(loss.mean()),
    "loss_std": float(loss.std()),
    "loss_max": float(loss.max()),
  }


def badness(name: str, value: float) -> float:
  """Returns a key to sort by: the best comes first, no number is the worst."""
  if not math.isfinite(value):
    return math.inf
  return -value if MEASURES[name].higher_is_better else value
