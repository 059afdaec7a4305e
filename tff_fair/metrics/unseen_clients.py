"""Computes a lower bound on the scores of most future clients.

The K measured clients and the future clients are drawn independently from one
population. Nothing is assumed about the distribution of their scores X. Let Q
be the largest number with P(X >= Q) >= share. Each measured client's score is
at most Q with a probability of at least 1 - share, so the number of such
clients is at least Binomial(K, 1 - share): the r-th lowest score is at most Q
with confidence P(Binomial(K, 1 - share) >= r). The largest r with the required
confidence gives the bound (Wilks, "Determination of Sample Sizes for Setting
Tolerance Limits", 1941).

A score that is a share of n_k test examples differs from the client's score on
infinitely many examples. It is replaced by the lower bound of Clopper and
Pearson ("The Use of Confidence or Fiducial Limits", 1934), which is too high
with a probability of at most delta, independently for each client. So for at
least Binomial(K, (1 - share) (1 - delta)) clients this bound is at most Q. As
before, this gives r, for delta = 0.1. As r is a whole number, a larger delta
may give the same r; the largest such delta is used.
"""

import functools
import math

import numpy as np
import numpy.typing as npt
from scipy import special

from tff_fair.metrics import vectors

_LEAST_MISS = 0.1  # The smallest delta.


def unseen_client_bound(
  scores: npt.ArrayLike,
  share: float,
  confidence: float,
  num_examples: npt.ArrayLike | None = None,
) -> float:
  """Returns a score that at least `share` of the future clients reach.

  Args:
    scores: float[K], of clients that took no part in training, so that they are
      like future clients; more is better. For errors, pass their negatives.
    share: The share of future clients whose score is at least the bound, in
      (0, 1).
    confidence: The probability, in (0, 1), over the draw of the K clients and
      of their test examples, that the bound holds.
    num_examples: int[K], the clients' numbers of test examples, if scores are
      the shares of these examples that the model gets right. The bound is then
      on a client's accuracy on infinitely many examples; without it, on
      measured scores.

  Returns:
    The bound, or NaN if there are too few clients: at least
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
  """Returns the rank r, and the largest delta that gives this rank."""
  rank = _rank(num_clients, below * (1 - _LEAST_MISS), confidence)
  if rank == 0:
    return 0, _LEAST_MISS

  def excess(miss: float) -> float:
    share = below * (1 - miss)
    return float(special.bdtrc(rank - 1, num_clients, share)) - confidence

  # Imported here because few programs need it.
  from scipy import optimize  # noqa: PLC0415

  # Stays a little below the root, which may have a rounding error.
  found = optimize.brentq(excess, _LEAST_MISS, 1.0, xtol=1e-9)
  return rank, max(_LEAST_MISS, found - 1e-8)
