"""Measures of runs: statistics over clients, and which way is better."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from tff_fair.experiments.comparing.paired import Clients, Statistic
from tff_fair.metrics import fairness_summary, vectors
from tff_fair.metrics.statistics import STATISTICS, TAIL_PERCENTS, tail_size
from tff_fair.metrics.vectors import Vector


class Measure(NamedTuple):
  """A number by which runs are compared.

  Attributes:
    title: Its name in tables.
    higher_is_better: Which way is better.
    scale: The factor for a table: 100 for percent.
    digits: Digits after the point in a table.
    is_signed: Whether a table shows the sign of positive numbers as well.
  """

  title: str
  higher_is_better: bool
  scale: float = 100.0
  digits: int = 2
  is_signed: bool = False


class Value(NamedTuple):
  """A measure over seeds, as tables have it.

  Attributes:
    mean: The mean.
    std: Sample standard deviation; None where there is one seed.
  """

  mean: float
  std: float | None


# Statistics over the clients of a run.
MEASURES: Mapping[str, Measure] = {
  "mean": Measure("Mean", True),
  "weighted": Measure("Weighted mean", True),
  "std": Measure("Std", False),
  "variance": Measure("Variance", False, 100.0**2),
  "min": Measure("Min", True),
  "max": Measure("Max", True),
  **{f"worst_{q}": Measure(f"Worst {q} %", True) for q in TAIL_PERCENTS},
  **{f"best_{q}": Measure(f"Best {q} %", True) for q in TAIL_PERCENTS},
  "percentile_10": Measure("Percentile 10", True),
  "percentile_50": Measure("Median", True),
  "percentile_90": Measure("Percentile 90", True),
  "relative_std": Measure("Relative std", False, 1.0, 4),
  "angle": Measure("Angle (°)", False, 1.0),
  "kl_uniform": Measure("KL to uniform", False, 1.0, 4),
  "entropy": Measure("Entropy", True, 1.0, 4),
  "jain": Measure("Jain's index", True, 1.0, 4),
  "loss": Measure("Loss", False, 1.0, 4),
  "loss_std": Measure("Loss std", False, 1.0, 4),
  "loss_max": Measure("Largest loss", False, 1.0, 4),
}

# Changes from one run to another, named as by `tff_fair.metrics`.
CHANGES: Mapping[str, Measure] = {
  "suffering_improved_share": Measure("Suffering improved", True),
  "suffering_mean_change": Measure("by", True, is_signed=True),
  "well_performing_degraded_share": Measure("Well-performing degraded", False),
  "well_performing_mean_change": Measure("by", True, is_signed=True),
  "mean_change": Measure("Mean change", True, is_signed=True),
}

# Where the table of evaluations does not have "accuracy/NAME".
_EVALUATION_COLUMNS = {
  "weighted": "accuracy_weighted",
  "loss": "loss/mean",
  "loss_std": "loss/std",
  "loss_max": "loss/max",
}


def _weighted(clients: Clients, weights: Vector) -> Vector:
  return vectors.mean(clients.accuracy, weights * clients.num_examples)


def _loss(clients: Clients, weights: Vector) -> Vector:
  return vectors.mean(clients.loss, weights)


def _loss_std(clients: Clients, weights: Vector) -> Vector:
  deviation = clients.loss - _loss(clients, weights)[..., None]
  return np.sqrt(vectors.mean(np.square(deviation), weights))


def _loss_max(clients: Clients, weights: Vector) -> Vector:
  return np.asarray(np.where(weights > 0, clients.loss, -np.inf).max(-1))


_BESIDE_ACCURACY: Mapping[str, Statistic] = {
  "weighted": _weighted,
  "loss": _loss,
  "loss_std": _loss_std,
  "loss_max": _loss_max,
}


def statistic(name: str) -> Statistic:
  """Returns a measure as a function of weighted clients, not scaled.

  Args:
    name: One of `MEASURES`.
  """
  if name in _BESIDE_ACCURACY:
    return _BESIDE_ACCURACY[name]
  of_accuracy = STATISTICS[name]
  return lambda clients, weights: of_accuracy(clients.accuracy, weights)


def tail_sizes(names: Iterable[str], num_clients: int) -> str:
  """Returns how many clients the tails are, as "10 % = 1 of 3 clients".

  Args:
    names: Names of measures.
    num_clients: Of how many clients.

  Returns:
    The text; empty if no measure is that of a tail.
  """
  percents = {
    int(percent)
    for kind, _, percent in (name.partition("_") for name in names)
    if kind in ("worst", "best")
  }
  return ", ".join(
    f"{percent} % = {tail_size(percent, num_clients)} of {num_clients} clients"
    for percent in sorted(percents)
  )


def evaluation_column(name: str) -> str:
  """Returns the column of the table of evaluations that has a measure."""
  return _EVALUATION_COLUMNS.get(name, f"accuracy/{name}")


def of_clients(clients: pd.DataFrame) -> dict[str, float]:
  """Returns all measures of one evaluation.

  Args:
    clients: One row per client: num_examples, loss, accuracy in [0, 1].

  Returns:
    Values by the names in `MEASURES`, not scaled. All clients count once but
    in `weighted`.

  Raises:
    ValueError: If there are no clients, or an accuracy is out of range.
  """
  columns = ("accuracy", "loss", "num_examples")
  values = [clients[name].to_numpy(np.float64) for name in columns]
  of_all = Clients(np.arange(len(clients)), *values)
  summary = fairness_summary(of_all.accuracy)
  weights = np.ones_like(of_all.accuracy)
  with np.errstate(invalid="ignore"):  # Losses may be infinite.
    return {
      **summary,
      **{n: float(f(of_all, weights)) for n, f in _BESIDE_ACCURACY.items()},
    }


def over_seeds(measure: Measure, values: Sequence[float]) -> Value:
  """Returns a measure over seeds, scaled for a table.

  Args:
    measure: The measure.
    values: One for each seed, at least one.
  """
  scaled = measure.scale * np.asarray(values, np.float64)
  with np.errstate(invalid="ignore"):
    std = float(scaled.std(ddof=1)) if scaled.size > 1 else None
    return Value(float(scaled.mean()), std)


def value_text(measure: Measure, value: Value) -> str:
  """Returns a value as tables show it, as "12.30 ± 0.45"."""
  if math.isnan(value.mean):
    return "-"
  sign = "+" if measure.is_signed else ""
  # A value that is rounded to zero has no sign.
  text = f"{round(value.mean, measure.digits) + 0.0:{sign}.{measure.digits}f}"
  if value.std is None or math.isnan(value.std):  # As that of infinities is.
    return text
  return f"{text} ± {value.std:.{measure.digits}f}"


def badness(measure: Measure, mean: float) -> float:
  """Returns a key to sort by: the best comes first, no number is the worst."""
  if not math.isfinite(mean):
    return math.inf
  return -mean if measure.higher_is_better else mean
