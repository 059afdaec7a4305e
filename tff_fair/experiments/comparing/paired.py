r"""Paired differences of two methods over seeds and clients, with intervals.

A measure T, such as the worst 10 %, is one number for a seed, of all its
clients. Both methods have the seeds s = 1..S and, in each, the same clients:

  D_s = T(method in s) - T(baseline in s)         D = mean_s D_s

Two things are samples: the seeds, and the clients. Their parts of D's variance
are estimated apart and added:

  V_seeds = sum_s (D_s - D)^2 / (S - 1) / S
  V_clients = K / (K - 1) mean_{s != s'} cov(D_s*, D_s'*)

D_s* is D_s over K clients drawn with replacement, the same draw for both
methods and for all seeds. Two seeds share nothing but the draw, so their
covariance over the draws is the clients' part alone; noise of one client in one
seed is in V_seeds already. Where the seeds have different clients, the
covariance vanishes, as it should. K / (K - 1) undoes the bootstrap's bias. With
one seed, V_seeds is unknown and left out, and V_clients is the variance of
D_1*: such an interval says nothing about other seeds. With one client it is the
other way round.

The interval is D +- t sqrt(V_seeds + V_clients) with Student's t at
Satterthwaite's degrees of freedom, V^2 / (V_seeds^2 / (S - 1) + V_clients^2 /
(K - 1)), and the p-value is that of the same t. Percentiles of a bootstrap over
three seeds would be far too narrow: it has ten different outcomes, and its
variance lacks a third. Symmetric intervals are the price.

The bootstrap of clients is Efron's (1979), Satterthwaite's degrees of freedom
are of 1946, the correction for several comparisons is Holm's (1979).
"""

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np
from scipy import special

from tff_fair.experiments.comparing import client_results
from tff_fair.experiments.comparing.client_results import (
  Clients,
  Pair,
  Seeds,
  Statistic,
)
from tff_fair.metrics.comparison import TIE
from tff_fair.metrics.vectors import Vector

CONFIDENCE = 0.95

_SEED = 0  # Of the draws: the runs alone decide the interval.
_MAX_DRAWS, _MIN_DRAWS = 1000, 200
_DRAWN_CLIENTS = 200_000  # With many clients, fewer draws do.
# Variances that rounding alone may leave, relative to squares of the values.
_ROUNDING = 1e-24


@dataclasses.dataclass(frozen=True)
class Difference:
  """A measure of a method minus that of a baseline.

  Attributes:
    estimate: The mean over the common seeds; NaN without one.
    low: Lower end of the interval; NaN where there is nothing to estimate the
      spread from: a single seed of a single client, a measure that is no
      number, or differences without any spread (unless they are all 0).
    high: Upper end.
    p_value: Two-sided, for a difference of 0; NaN as `low`.
    num_seeds: How many seeds both have.
    num_clients: How many clients both have, in any of these seeds.
  """

  estimate: float
  low: float
  high: float
  p_value: float
  num_seeds: int
  num_clients: int

  def scaled(self, factor: float) -> "Difference":
    """Returns the difference in another unit: times a factor above 0."""
    return dataclasses.replace(
      self,
      estimate=factor * self.estimate,
      low=factor * self.low,
      high=factor * self.high,
    )


def difference(
  statistic: Statistic,
  method: Seeds,
  baseline: Seeds,
  confidence: float = CONFIDENCE,
) -> Difference:
  """Returns the difference of a measure, paired over seeds and clients.

  Only seeds that both have count, and in each the clients that all evaluations
  of both have. The result depends on the arguments alone.

  Args:
    statistic: The measure; with several evaluations of a seed, its mean.
    method: Evaluations of the method by seed.
    baseline: The same of the baseline.
    confidence: Of the interval, in (0, 1).
  """
  pairs = client_results.pairs(method, baseline)
  if not pairs:
    return Difference(math.nan, math.nan, math.nan, math.nan, 0, 0)
  ids = np.unique(np.concatenate([pair.ids for pair in pairs]))
  num_seeds, num_clients = len(pairs), ids.size
  # A loss that is no number, or infinite, makes none of a difference either.
  with np.errstate(all="ignore"):
    observed = np.array(
      [p.change(statistic, np.ones(p.ids.size)) for p in pairs]
    )
    estimate = float(observed.mean())
    if not math.isfinite(estimate):
      unknown = (math.nan, math.nan, math.nan)
      return Difference(estimate, *unknown, num_seeds, num_clients)
    variances, degrees = [], []
    if num_seeds > 1:
      variances.append(float(observed.var(ddof=1)) / num_seeds)
      degrees.append(num_seeds - 1)
    if num_clients > 1:
      variances.append(_variance_by_clients(statistic, pairs, ids))
      degrees.append(num_clients - 1)
  low, high, p_value = _interval(
    estimate, np.array(variances), np.array(degrees), confidence
  )
  return Difference(estimate, low, high, p_value, num_seeds, num_clients)


def remembering(statistic: Statistic) -> Statistic:
  """Returns a measure that computes each of its values once.

  Comparing several methods with one asks for the values of that one each time,
  for the same draws.
  """
  # The arguments are kept, so that no others get their identities.
  known: dict[tuple[int, int], tuple[Clients, Vector, Vector]] = {}

  def remembered(clients: Clients, weights: Vector) -> Vector:
    key = (id(clients), id(weights))
    if key not in known:
      known[key] = (clients, weights, statistic(clients, weights))
    return known[key][-1]

  return remembered


def holm(p_values: Sequence[float]) -> list[float]:
  """Returns p-values corrected for being several, after Holm (1979).

  Args:
    p_values: One for each comparison; NaN is none, and does not count.

  Returns:
    The smallest times their number, the next one times one less, and so on; at
    most 1, and none smaller than that of a smaller p-value. NaN stays NaN.
  """
  p = np.asarray(p_values, np.float64)
  order = [place for place in np.argsort(p, kind="stable") if p[place] >= 0]
  corrected = np.full(p.shape, math.nan)
  factors = np.arange(len(order), 0, -1)
  corrected[order] = np.minimum(1, np.maximum.accumulate(factors * p[order]))
  return [float(value) for value in corrected]


def _variance_by_clients(
  statistic: Statistic, pairs: Sequence[Pair], ids: np.ndarray
) -> float:
  """Returns the clients' part of the variance, V_clients."""
  counts = _counts(ids.size)
  changes = []
  for pair in pairs:
    weights = counts
    if pair.ids.size < ids.size:
      weights = counts[:, np.searchsorted(ids, pair.ids)]
      # Of mean 1, though other clients than those of this seed were drawn, too.
      weights = weights / weights.mean(1, keepdims=True)
    changes.append(pair.change(statistic, weights))
  drawn = np.array(changes)  # float64[S, draws]
  drawn = drawn[:, np.isfinite(drawn).all(0)]
  if drawn.shape[1] < 2:
    return math.nan
  covariance = np.atleast_2d(np.cov(drawn))
  num_seeds = len(pairs)
  if num_seeds > 1:
    off_diagonal = covariance.sum() - np.trace(covariance)
    shared = off_diagonal / (num_seeds * (num_seeds - 1))
  else:
    shared = covariance[0, 0]
  return max(0.0, float(shared)) * ids.size / (ids.size - 1)


@functools.lru_cache(maxsize=8)
def _counts(num_clients: int) -> Vector:
  """Draws clients with replacement.

  Returns:
    float64[draws, K]: how often each client is in a draw of K of them.
  """
  num_draws = max(_MIN_DRAWS, min(_MAX_DRAWS, _DRAWN_CLIENTS // num_clients))
  generator = np.random.Generator(np.random.PCG64(_SEED))
  shares = np.full(num_clients, 1 / num_clients)
  counts = generator.multinomial(num_clients, shares, size=num_draws)
  drawn = counts.astype(np.float64)
  drawn.flags.writeable = False
  return drawn


def _interval(
  estimate: float, variances: Vector, degrees: Vector, confidence: float
) -> tuple[float, float, float]:
  """Returns the ends of the interval and the p-value."""
  variance = float(variances.sum()) if variances.size else math.nan
  if not variance > _ROUNDING * max(1.0, estimate**2):
    # Nothing varies. If nothing changed either, there is nothing unknown.
    if variance >= 0 and abs(estimate) <= TIE:
      return estimate, estimate, 1.0
    return math.nan, math.nan, math.nan
  freedom = variance**2 / float((variances**2 / degrees).sum())
  error = math.sqrt(variance)
  reach = error * float(special.stdtrit(freedom, (1 + confidence) / 2))
  p_value = 2 * float(special.stdtr(freedom, -abs(estimate) / error))
  return estimate - reach, estimate + reach, p_value
