r"""Paired differences of two methods over seeds and clients, with intervals.

A measure T, such as the worst 10 %, is one number for a seed, of all its
clients. Both methods have the seeds s = 1..S and, in each, the same clients:

  D_s = T(method in s) - T(baseline in s)         D = mean_s D_s

Two things are samples: the seeds, and the clients. Their parts of D's variance
are estimated apart and added:

  V_seeds = (sum_s (D_s - D)^2 / (S - 1) + h^2 / 6) / S
  V_clients = max(0, K / (K - 1) mean_{s != s'} cov(D_s*, D_s'*),
                  W / S - V_seeds)
  W = K / (K - 1) mean_s var(D_s*)

D_s* is D_s over K clients drawn with replacement, the same draw for both
methods and for all seeds. Two seeds share nothing but the draw, so their
covariance over the draws is the clients' part alone; noise of one client in one
seed is in V_seeds already. Where the seeds have different clients, the
covariance vanishes, as it should. K / (K - 1) undoes the bootstrap's bias.

Differences of few examples are on a grid, and may agree by chance. Two terms
keep that from looking like certainty. Where two D_s are the same, h is the
least distance of the others, and 0 elsewhere: rounding to a grid of that step
hides h^2 / 12 of each method's value. And W, the clients' variance in a single
seed, has the noise of clients in a seed as well as what they share, so that the
variance of D is W / S at least: a floor of the sum.

With one seed, V_seeds is unknown and left out, and V_clients is W: such an
interval says nothing about other seeds. With one client it is the other way
round. Where nothing varies, or no more than float32 rounds, there is no
estimate of the variance: no interval, and no p-value.

The interval is D +- t sqrt(V_seeds + V_clients) with Student's t at
Satterthwaite's degrees of freedom, V^2 / (V_seeds^2 / (S - 1) + V_clients^2 /
(K - 1)), and S - 1 at most: V_seeds of few seeds may be small by chance, and
then Satterthwaite's trusts the clients alone. The p-value is that of the same
t. Percentiles of a bootstrap over three seeds would be far too narrow: it has
ten different outcomes, and its variance lacks a third. Symmetric intervals are
the price. `benchmarks.false_certainty` measures how often identical methods are
called different.

The bootstrap of clients is Efron's (1979), Satterthwaite's degrees of freedom
are of 1946, the variance of rounding is Sheppard's (1898), the correction for
several comparisons is Holm's (1979).
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
_ROUNDING = 4 * TIE  # Of a difference of two values, relative to the values.


@dataclasses.dataclass(frozen=True)
class Difference:
  """A measure of a method minus that of a baseline.

  Attributes:
    estimate: The mean over the common seeds; NaN without one.
    error: Its standard error; NaN where there is nothing to estimate it from: a
      single seed of a single client, a measure that is no number, or
      differences without any spread.
    freedom: Student's degrees of freedom; NaN as `error`.
    num_seeds: How many seeds both have.
    num_clients: How many clients both have, in any of these seeds.
    confidence: Of the interval, in (0, 1).
    span: By how much two values of the measure may differ; an interval ends
      there.
  """

  estimate: float
  error: float
  freedom: float
  num_seeds: int
  num_clients: int
  confidence: float = CONFIDENCE
  span: float = math.inf

  @property
  def low(self) -> float:
    """The lower end of the interval; NaN as `error`."""
    return max(self.estimate - self._reach, -self.span)

  @property
  def high(self) -> float:
    """The upper end."""
    return min(self.estimate + self._reach, self.span)

  @property
  def p_value(self) -> float:
    """Two-sided, for a difference of 0; NaN as `error`."""
    return 2 * float(
      special.stdtr(self.freedom, -abs(self.estimate) / self.error)
    )

  def scaled(self, factor: float) -> "Difference":
    """Returns the difference in another unit: times a factor above 0."""
    return dataclasses.replace(
      self,
      estimate=factor * self.estimate,
      error=factor * self.error,
      span=factor * self.span,
    )

  def corrected(self, factor: float) -> "Difference":
    """Returns it with the interval for a p-value that is multiplied.

    The interval leaves out 0 where factor * p_value < 1 - confidence, and only
    there.
    """
    return dataclasses.replace(
      self, confidence=1 - (1 - self.confidence) / factor
    )

  @property
  def _reach(self) -> float:
    quantile = special.stdtrit(self.freedom, (1 + self.confidence) / 2)
    return self.error * float(quantile)


def difference(
  statistic: Statistic,
  method: Seeds,
  baseline: Seeds,
  span: float = math.inf,
) -> Difference:
  """Returns the difference of a measure, paired over seeds and clients.

  Only seeds that both have count, and in each the clients that all evaluations
  of both have. The result depends on the arguments alone.

  Args:
    statistic: The measure; with several evaluations of a seed, its mean.
    method: Evaluations of the method by seed.
    baseline: The same of the baseline.
    span: By how much two values of the measure may differ.
  """
  pairs = client_results.pairs(method, baseline)
  if not pairs:
    return Difference(math.nan, math.nan, math.nan, 0, 0, span=span)
  ids = np.unique(np.concatenate([pair.ids for pair in pairs]))
  # A loss that is no number, or infinite, makes none of a difference either.
  with np.errstate(all="ignore"):
    values = np.array([p.values(statistic, np.ones(p.ids.size)) for p in pairs])
    changes = values[:, 0] - values[:, 1]
    estimate = float(changes.mean())
    error, freedom = math.nan, math.nan
    if math.isfinite(estimate):
      rounding = _ROUNDING * float(np.abs(values).max())
      covariance = np.zeros([len(pairs)] * 2)
      if ids.size > 1:
        covariance = _covariance_by_clients(statistic, pairs, ids)
      error, freedom = standard_error(changes, covariance, ids.size, rounding)
  return Difference(estimate, error, freedom, len(pairs), ids.size, span=span)


def standard_error(
  changes: Vector, covariance: Vector, num_clients: int, rounding: float
) -> tuple[float, float]:
  """Returns the standard error of a mean over seeds, and its freedom.

  Args:
    changes: float64[S], D_s: a difference in each seed.
    covariance: float64[S, S], K / (K - 1) cov(D_s*, D_s'*) over draws of the
      clients; 0 where there is one client.
    num_clients: K.
    rounding: By how much differences may vary by rounding alone.

  Returns:
    The error, sqrt(V_seeds + V_clients), and Student's degrees of freedom; both
    NaN where the differences vary by no more than rounding.
  """
  num_seeds = changes.size
  single = float(np.trace(covariance)) / num_seeds
  if num_seeds == 1:
    of_seeds, of_clients, most = 0.0, single, math.inf
  else:
    most = num_seeds - 1
    hidden = _step(changes, rounding) ** 2 / 6
    of_seeds = (float(changes.var(ddof=1)) + hidden) / num_seeds
    shared = float(covariance.sum() / num_seeds - single) / most
    of_clients = max(shared, single / num_seeds - of_seeds, 0.0)
  variance = of_seeds + of_clients
  if not variance > rounding**2 / num_seeds:
    return math.nan, math.nan
  by_part = of_seeds**2 / max(num_seeds - 1, 1)
  by_part += of_clients**2 / max(num_clients - 1, 1)
  return math.sqrt(variance), min(most, variance**2 / by_part)


def _step(changes: Vector, rounding: float) -> float:
  """Returns the step of the grid that values are on; 0 if nothing tells it.

  Values that differ by `rounding` may be the same.
  """
  gaps = np.diff(np.sort(changes))
  steps = gaps[gaps > rounding]
  # Values without a grid are never the same.
  return float(steps.min()) if 0 < steps.size < gaps.size else 0.0


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


def holm_factors(p_values: Sequence[float]) -> list[float]:
  """Returns what p-values are multiplied with for being several.

  Holm's correction (1979) is the smallest times their number, the next one
  times one less, and so on; none smaller than that of a smaller p-value.

  Args:
    p_values: One for each comparison. One without a p-value, NaN, counts as
      well: that it has none is chance, too.

  Returns:
    A factor for each, from 1 to their number: the corrected p-value is factor *
    p, and 1 at most.
  """
  p = np.asarray(p_values, np.float64)
  order = np.argsort(p, kind="stable")  # NaN last.
  factors = np.arange(p.size, 0.0, -1.0)
  ranked = p[order]
  corrected = np.maximum.accumulate(factors * ranked)
  np.divide(corrected, ranked, out=factors, where=ranked > 0)
  found = np.empty_like(p)
  found[order] = factors
  return [float(factor) for factor in found]


def _covariance_by_clients(
  statistic: Statistic, pairs: Sequence[Pair], ids: np.ndarray
) -> Vector:
  """Returns the covariance between seeds over draws of clients.

  Returns:
    float64[S, S], times K / (K - 1); NaN if too few draws have a value.
  """
  counts = _counts(ids.size)
  changes = []
  for pair in pairs:
    weights = counts
    if pair.ids.size < ids.size:
      weights = counts[:, np.searchsorted(ids, pair.ids)]
      # Of mean 1, though other clients than those of this seed were drawn, too.
      weights = weights / weights.mean(1, keepdims=True)
    method, baseline = pair.values(statistic, weights)
    changes.append(method - baseline)
  drawn = np.array(changes)  # float64[S, draws]
  drawn = drawn[:, np.isfinite(drawn).all(0)]
  if drawn.shape[1] < 2:
    return np.full([len(pairs)] * 2, math.nan)
  return np.atleast_2d(np.cov(drawn)) * ids.size / (ids.size - 1)


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
