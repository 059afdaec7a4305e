r"""Computes intervals for accuracies, and for statistics over clients.

A client's accuracy has Wilson's interval, which keeps its coverage for few
examples and near 0 and 1 (E. B. Wilson, "Probable inference, the law of
succession, and statistical inference", 1927).

A statistic T, such as the std or the worst 10 %, is over K clients, each with
n_k test examples. Both the clients and their examples are samples. A draw takes
K clients with replacement, and draws the number c*_k of correct test examples
of each:

  c*_k ~ Binomial(n_k, q_k)     a*_k = c*_k / n_k     T* = T(a*_1 ... a*_K)

The measured accuracies a_k already include the noise of one draw of examples.
With q_k = a_k, a draw would add noise a second time: spreads would be too
large, the worst clients too bad. So the q_k are shrunk towards the mean
accuracy a, to the variance without noise (V and N are defined in
`metrics.noise`):

  q_k = a + sqrt(max(0, V - N) / V) (a_k - a)

Then the draws spread like the measured accuracies. The interval is

  T +- t sqrt(K / (K - 1) Var(T*))

with Student's t at K - 1 degrees of freedom, clipped to the bounds of T.
Intervals from percentiles of the draws would be too narrow for few clients. The
interval is for T over other clients from the same population, with test sets of
the same sizes: like T itself, it includes the noise of the test sets.

Errors and losses come without numbers of examples, so only the clients are
drawn. If the interval is for the same clients with other examples, only
examples are drawn: every draw has each client once, and the interval is
T +- z sqrt(Var(T*)), with the normal quantile z.
"""

import math
import statistics as standard_library
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from tff_fair.metrics import noise, vectors
from tff_fair.metrics.comparison import TIE
from tff_fair.metrics.statistics import STATISTICS, UPPER_BOUNDS, Statistic
from tff_fair.metrics.vectors import Vector

CONFIDENCE = 0.95
LEVEL = 0.05  # A difference with a smaller p-value is significant.

_MAX_DRAWS = 1000
_ROUNDING = 4 * TIE  # Rounding of draws, relative to their size.


class Interval(NamedTuple):
  """The ends of an interval; both are NaN if the data do not determine them."""

  low: float
  high: float


def wilson_interval(
  accuracies: npt.ArrayLike,
  num_examples: npt.ArrayLike,
  confidence: float = CONFIDENCE,
) -> tuple[Vector, Vector]:
  """Returns Wilson's score interval of each client's accuracy.

  With z the normal quantile of (1 + confidence) / 2, the ends are

    (a + z^2 / 2n +- z sqrt(a (1 - a) / n + z^2 / 4n^2)) / (1 + z^2 / n).

  Args:
    accuracies: float[K], a_k in [0, 1], each the share of a client's test
      examples that the model gets right.
    num_examples: float[K], n_k > 0.
    confidence: The confidence of each interval, in (0, 1).

  Returns:
    The lower and the upper ends, float64[K] each, in [0, 1].

  Raises:
    ValueError: If an argument is empty, not of rank 1 or out of range, or if
      their lengths differ.
  """
  accuracy = vectors.accuracies_per_client("accuracies", accuracies)
  count = vectors.example_counts_per_client(num_examples)
  vectors.check_same_clients(accuracies=accuracy, num_examples=count)
  vectors.check_share("confidence", confidence)
  z = standard_library.NormalDist().inv_cdf((1 + confidence) / 2)
  middle = accuracy + z**2 / (2 * count)
  reach = z * np.sqrt(accuracy * (1 - accuracy) / count + z**2 / (4 * count**2))
  scale = 1 + z**2 / count
  # Set exactly, because rounding could put these ends above 0 or below 1.
  low = np.where(accuracy == 0, 0.0, (middle - reach) / scale)
  high = np.where(accuracy == 1, 1.0, (middle + reach) / scale)
  return low.clip(0, 1), high.clip(0, 1)


def fairness_intervals(
  accuracies: npt.ArrayLike,
  num_examples: npt.ArrayLike | None = None,
  names: Iterable[str] = ("mean", "std", "worst_10", "jain"),
  *,
  of_other_clients: bool = True,
  confidence: float = CONFIDENCE,
  seed: int = 0,
) -> dict[str, Interval]:
  """Returns intervals for the statistics of `fairness_summary`.

  Clients have equal weights.

  Args:
    accuracies: float[K], a_k in [0, 1].
    num_examples: float[K], n_k, at least 1, if each accuracy is the share of
      n_k test examples that the model gets right. Without it, only the clients
      are drawn.
    names: The statistics' names in `fairness_summary`.
    of_other_clients: Whether the interval is for other clients of the same
      kind. If not, it is for these clients with other test examples, which
      requires `num_examples`.
    confidence: The confidence of each interval, in (0, 1).
    seed: Seed of the draws.

  Returns:
    The intervals by name, in the order of `names`.

  Raises:
    ValueError: If an argument is empty, not of rank 1 or out of range, if their
      lengths differ, or a name is unknown.
  """
  accuracy = vectors.accuracies_per_client("accuracies", accuracies)
  chosen = list(names)
  for name in chosen:
    if name not in STATISTICS:
      raise ValueError(
        f"Unknown statistic {name!r}; valid: {', '.join(STATISTICS)}."
      )
  found = bootstrap_intervals(
    {name: STATISTICS[name] for name in chosen},
    accuracy,
    num_examples,
    of_other_clients=of_other_clients,
    confidence=confidence,
    seed=seed,
  )
  return {
    name: Interval(*np.clip(interval, 0, UPPER_BOUNDS.get(name, 1.0)).tolist())
    for name, interval in found.items()
  }


def bootstrap_intervals(
  statistics: Mapping[str, Statistic],
  values: npt.ArrayLike,
  num_examples: npt.ArrayLike | None = None,
  *,
  of_other_clients: bool = True,
  confidence: float = CONFIDENCE,
  seed: int = 0,
) -> dict[str, Interval]:
  """Returns intervals for statistics over clients.

  Only one draw is in memory at a time, so 100,000 clients are possible. There
  are 1,000 draws; fewer with more than 10,000 clients, but at least 200.

  Args:
    statistics: By name, functions of values and weights, float64[K] each.
    values: float[K], one value for each client: accuracies, losses, errors.
    num_examples: float[K], n_k, if values are shares of n_k examples; otherwise
      None, and only the clients are drawn.
    of_other_clients: Whether the interval is for other clients of the same
      kind. If not, it is for these clients with other test examples, which
      requires `num_examples`.
    confidence: The confidence of each interval, in (0, 1).
    seed: Seed of the draws.

  Returns:
    The intervals by name. They are NaN for a single client, for values that are
    not finite, and if all draws are the same.

  Raises:
    ValueError: If an argument is empty, not of rank 1 or out of range, or if
      their lengths differ.
  """
  vectors.check_share("confidence", confidence)
  if num_examples is None and not of_other_clients:
    raise ValueError(
      "num_examples: is missing; without other clients, the intervals are over "
      "these examples."
    )
  value = vectors.per_client("values", values)
  once = np.ones_like(value)
  generator = np.random.default_rng(seed)
  centers, sizes = value, None
  if num_examples is not None:
    sizes = np.rint(vectors.example_counts_per_client(num_examples)).astype(
      np.int64
    )
    centers = _denoise(value, sizes)
  everyone = np.arange(value.size)
  num_draws = noise.num_draws(_MAX_DRAWS, value.size)
  drawn = np.empty([num_draws, len(statistics)])
  with np.errstate(all="ignore"):  # Losses may be infinite.
    for row in drawn:
      clients = everyone
      if of_other_clients:
        clients = generator.integers(value.size, size=value.size)
      draw = centers[clients]
      if sizes is not None:
        draw = generator.binomial(sizes[clients], draw) / sizes[clients]
      draw.sort()  # Statistics sort faster if it is sorted already.
      row[:] = [statistic(draw, once) for statistic in statistics.values()]
    estimates = [
      float(statistic(value, once)) for statistic in statistics.values()
    ]
    reach = _half_widths(
      drawn, value.size if of_other_clients else None, confidence
    )
  return {
    name: Interval(float(estimate - r), float(estimate + r))
    for name, estimate, r in zip(statistics, estimates, reach, strict=True)
  }


def _denoise(accuracy: Vector, sizes: np.ndarray) -> Vector:
  """Returns q_k: the accuracies, shrunk until their variance has no noise."""
  found = noise.sampling_noise(accuracy, sizes)
  # Without an estimate, every client has one example: all spread may be noise.
  shrink = 0.0
  if found is not None and found.variance > 0:
    shrink = found.true_std / math.sqrt(found.variance)
  average = vectors.mean(accuracy)
  return np.asarray(average + shrink * (accuracy - average)).clip(0, 1)


def _half_widths(
  drawn: np.ndarray, num_clients: int | None, confidence: float
) -> Vector:
  """Returns half the width of each statistic's interval, from rows of draws.

  `num_clients` is None if only examples were drawn.
  """
  variance = drawn.var(axis=0, ddof=1)
  if num_clients is None:
    t = standard_library.NormalDist().inv_cdf((1 + confidence) / 2)
  elif num_clients < 2:
    return np.full(drawn.shape[1], math.nan)
  else:
    t = float(special.stdtrit(num_clients - 1, (1 + confidence) / 2))
    variance = variance * num_clients / (num_clients - 1)
  # If all draws are equal, they do not show how clients vary.
  varies = variance > (_ROUNDING * np.abs(drawn).max(axis=0)) ** 2
  return np.where(varies, t * np.sqrt(variance), math.nan)
