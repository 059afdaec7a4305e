r"""Estimates how much of the spread between clients is due to small test sets.

The model gets c_k of client k's n_k test examples right. The measured accuracy
a_k = c_k / n_k differs from the true accuracy p_k, on infinitely many examples:
given p_k, c_k is binomial, so Var(a_k) = p_k (1 - p_k) / n_k. Clients with the
same true accuracy would still show a spread.

Let s_k be client k's weight, 1 / K or n_k / sum n, a = sum_k s_k a_k, and
p = sum_k s_k p_k. The variance between clients, V = sum_k s_k (a_k - a)^2, has
for given p_k the expected value

  E[V] = sum_k s_k (p_k - p)^2 + sum_k s_k (1 - s_k) p_k (1 - p_k) / n_k.

The first part is the variance of the true accuracies, the second the noise. The
factor 1 - s_k is there because a client's own error moves the mean, too. Since
a_k (1 - a_k) / (n_k - 1) is an unbiased estimate of p_k (1 - p_k) / n_k,

  N = sum_k s_k (1 - s_k) a_k (1 - a_k) / (n_k - 1)

estimates the noise, and V - N the variance of the true accuracies. The share of
the noise is N / V, at most 1.

A single example does not show its noise. If n_k = 1, the estimate of
p_k (1 - p_k) is pooled over the clients with several examples:
sum n_k a_k (1 - a_k) / sum (n_k - 1), the mean square within groups, as in an
analysis of variance.

The noise of a mean loss or a mean error cannot be computed: the mean does not
show how much the examples vary.
"""

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tff_fair.metrics import vectors
from tff_fair.metrics.vectors import Vector

_MAX_DRAWS = 2000  # Of `equality_p_value`; they take a second or two.
_MIN_DRAWS = 200
_DRAWN_CLIENTS = 10_000_000  # Limits draws times clients, above `_MIN_DRAWS`.
_NUMBERS_AT_ONCE = 1_000_000  # Numbers in memory at a time.


class SamplingNoise(NamedTuple):
  """The variance between clients, and the part of it that is noise.

  Attributes:
    variance: V, the population variance of the measured accuracies.
    expected: N, an estimate of the variance that test sets of these sizes add
      on average to the variance of the true accuracies. It may exceed V.
  """

  variance: float
  expected: float

  @property
  def share(self) -> float | None:
    """The noise's share, N / V, at most 1; None if all accuracies are equal."""
    if not self.variance > 0:
      return None
    return min(1.0, self.expected / self.variance)

  @property
  def std(self) -> float:
    """The std that the noise alone would cause, sqrt(N)."""
    return math.sqrt(self.expected)

  @property
  def true_std(self) -> float:
    """The std of the true accuracies, sqrt(V - N); 0 if N exceeds V."""
    return math.sqrt(max(0.0, self.variance - self.expected))


def sampling_noise(
  accuracies: npt.ArrayLike,
  num_examples: npt.ArrayLike,
  *,
  weighted: bool = False,
) -> SamplingNoise | None:
  """Estimates the noise in the variance of the accuracies.

  Args:
    accuracies: float[K], a_k in [0, 1], each the share of a client's test
      examples that the model gets right.
    num_examples: float[K], n_k, at least 1: the clients' numbers of test
      examples.
    weighted: Whether clients are weighted by their numbers of examples, as in
      `fairness_summary` with `num_examples`, or equally.

  Returns:
    The observed variance and the expected noise; None if every client has one
    example, since noise and differences are then inseparable.

  Raises:
    ValueError: If an argument is empty, not of rank 1 or out of range, or if
      their lengths differ.
  """
  accuracy, count = _checked(accuracies, num_examples)
  has_several = count > 1
  if not has_several.any():
    return None
  sums = count * accuracy * (1 - accuracy)
  degrees = np.maximum(count - 1, 0)
  pooled = sums.sum() / degrees.sum()
  # The variance of an accuracy: p_k (1 - p_k) / n_k.
  of_client = np.where(
    has_several, sums / np.where(has_several, degrees, 1), pooled
  )
  of_client /= count
  share = (
    count / count.sum() if weighted else np.full_like(count, 1 / count.size)
  )
  expected = float((share * (1 - share) * of_client).sum())
  variance = (share * (accuracy - vectors.mean(accuracy, share)) ** 2).sum()
  return SamplingNoise(float(variance), expected)


def are_shares_of_examples(
  accuracies: npt.ArrayLike, num_examples: npt.ArrayLike
) -> bool:
  """Returns whether each accuracy is a share of the client's n_k examples.

  An accuracy is not such a share if the metric counts something else, such as
  words, while examples are sentences. Then n_k does not determine the noise.

  Args:
    accuracies: float[K], in [0, 1], float32 or more exact.
    num_examples: float[K], n_k.
  """
  accuracy, count = _checked(accuracies, num_examples)
  correct = accuracy * count
  # The accuracy may be rounded to float32's 24 bits.
  slack = 1e-6 + count * np.finfo(np.float32).eps
  return bool((np.abs(correct - np.rint(correct)) <= slack).all())


def equality_p_value(
  accuracies: npt.ArrayLike, num_examples: npt.ArrayLike, *, seed: int = 0
) -> float:
  """Returns the p-value of the hypothesis that clients' accuracies are equal.

  Pearson's test of homogeneity tests that all true accuracies are the same. The
  statistic is sum_k n_k (a_k - a)^2 / (a (1 - a)), with a the accuracy over
  all examples. Its chi-squared approximation fails for small n_k, so the
  p-value comes from draws of c_k ~ Binomial(n_k, a): it is the share of draws
  with at least the observed statistic, counting the observation as a draw
  (Davison and Hinkley, "Bootstrap Methods and their Application", 1997, section
  4.2).

  Args:
    accuracies: As for `sampling_noise`.
    num_examples: As for `sampling_noise`.
    seed: Seed of the draws: 2,000, or fewer with more than 5,000 clients, but
      at least 200.

  Returns:
    The p-value in (0, 1]; 1 if there is no spread.

  Raises:
    ValueError: As `sampling_noise`.
  """
  accuracy, count = _checked(accuracies, num_examples)
  overall = float(vectors.mean(accuracy, count))
  size = np.rint(count).astype(np.int64)
  draws = num_draws(_MAX_DRAWS, count.size)
  generator = np.random.default_rng(seed)
  # Rounding must not separate a draw from an equal observation.
  bound = float(_heterogeneity(accuracy, count)) * (1 - 1e-9)
  as_large, left = 0, draws
  while left:
    rows = min(left, max(1, _NUMBERS_AT_ONCE // count.size))
    drawn = generator.binomial(size, overall, [rows, count.size]) / count
    as_large += int((_heterogeneity(drawn, count) >= bound).sum())
    left -= rows
  return (1 + as_large) / (1 + draws)


def num_draws(most: int, num_clients: int) -> int:
  """Returns the number of draws: `most`, or fewer for many clients."""
  return max(_MIN_DRAWS, min(most, _DRAWN_CLIENTS // num_clients))


def _heterogeneity(accuracy: Vector, count: Vector) -> Vector:
  """Returns Pearson's statistic, float64[...], for accuracies [..., K]."""
  overall = vectors.mean(accuracy, count)
  squares = (count * (accuracy - overall[..., None]) ** 2).sum(-1)
  variance = overall * (1 - overall)
  # If all predictions are right, or all are wrong, clients do not differ.
  return np.asarray(np.where(variance > 0, squares, 0.0)) / np.where(
    variance > 0, variance, 1.0
  )


def _checked(
  accuracies: npt.ArrayLike, num_examples: npt.ArrayLike
) -> tuple[Vector, Vector]:
  accuracy = vectors.accuracies_per_client("accuracies", accuracies)
  count = vectors.example_counts_per_client(num_examples)
  vectors.check_same_clients(accuracies=accuracy, num_examples=count)
  if (count < 1).any():
    raise ValueError(
      f"Expected num_examples of 1 or more, found {count.min()}; leave clients "
      "without examples out."
    )
  return accuracy, count
