"""A bound of what clients get that have not been seen yet.

The clients that were measured, and those yet to come, are drawn independently
from one population. Nothing is assumed of the distribution of their scores X.
Let Q be the largest number with P(X >= Q) >= share. Each measured client lies
at or below Q with a probability of at least 1 - share, so that the number of
such clients is at least Binomial(K, 1 - share): the r-th lowest score is at
most Q with the confidence P(Binomial(K, 1 - share) >= r). The largest r that
has the asked confidence gives the bound (Wilks, "Determination of Sample Sizes
for Setting Tolerance Limits", 1941).

A score that is the share of n_k test examples strays from the one that the
client would have on endless examples. In its place stands the lower bound of
Clopper and Pearson ("The Use of Confidence or Fiducial Limits", 1934), which is
too high with a probability of at most delta, in each client by itself. So at
least Binomial(K, (1 - share) (1 - delta)) clients lie below Q by their own
bounds, and r follows as before, for a delta of 0.1. As r is a whole number, it
leaves slack: delta is then the largest with which r has the confidence.
"""

import functools
import math

import numpy as np
import numpy.typing as npt
from scipy import special

from tff_fair.metrics import vectors

_LEAST_MISS = 0.1  # The least delta.


def unseen_client_bound(
  scores: npt.ArrayLike,
  share: float,
  confidence: float,
  num_examples: npt.ArrayLike | None = None,
) -> float:
  """Returns a score that at least a share of future clients reach.

  Args:
    scores: float[K], of clients that took no part in training, so that they are
      like those to come; more is better. Take the negatives of errors.
    share: The share of the clients to come that get the bound or more, in
      (0, 1).
    confidence: How sure that is, in (0, 1): the probability, over the draw of
      the K clients and of their test examples, that the bound holds.
    num_examples: int[K], the test examples of each client, where scores are the
      shares of them that the model gets right. The bound is then on the
      accuracy that a client would have on endless examples. Without, it is on
      scores as they are measured.

  Returns:
    The bound, or NaN where there are too few clients for any: at least
    log(1 - confidence) / log(share) are needed, and more with `num_examples`.

  Raises:
    ValueError: If an argument is empty, not of rank 1, not finite or out of
      range, or if the lengths differ.
  """
  vectors.check_share("share", share)
  vectors.check_share("confidence", confidence)
  if num_examples is None:
    score = vectors.per_client("scores", scores)
    if not np.isfinite(score).all():
      raise ValueError(
        "Expected finite scores; leave clients without a score out."
      )
    rank = _rank(score.size, 1 - share, confidence)
  else:
    score = vectors.accuracies_per_client("scores", scores)
    count = vectors.example_counts_per_client(num_examples)
    vectors.check_same_clients(scores=score, num_examples=count)
    rank, miss = _rank_and_miss(score.size, 1 - share, confidence)
    right = np.rint(score * count)
    bounds = special.betaincinv(np.maximum(right, 1), count - right + 1, miss)
    score = np.where(right > 0, bounds, 0.0)
  if rank == 0:
    return math.nan
  return float(np.partition(score, rank - 1)[rank - 1])


@functools.cache
def _rank(num_clients: int, below: float, confidence: float) -> int:
  """Returns the largest r with P(Binomial(K, below) >= r) >= confidence."""
  ranks = np.arange(num_clients + 1)
  reached = special.bdtrc(ranks - 1, num_clients, below) >= confidence
  return int(ranks[reached].max())


@functools.cache
def _rank_and_miss(
  num_clients: int, below: float, confidence: float
) -> tuple[int, float]:
  """Returns the rank r, and delta."""
  rank = _rank(num_clients, below * (1 - _LEAST_MISS), confidence)
  if rank == 0:
    return 0, _LEAST_MISS

  def excess(miss: float) -> float:
    share = below * (1 - miss)
    return float(special.bdtrc(rank - 1, num_clients, share)) - confidence

  # Imported late: few programs need it.
  from scipy import optimize  # noqa: PLC0415

  # The root itself may be off by a rounding.
  found = optimize.brentq(excess, _LEAST_MISS, 1.0, xtol=1e-9)
  return rank, max(_LEAST_MISS, found - 1e-8)
