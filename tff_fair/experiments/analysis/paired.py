r"""Paired differences of two methods over seeds and clients, with intervals.

A measure T over all clients, such as the worst 10 %, is one number per seed.
Both methods have the seeds s = 1..S and, in each seed, the same clients:

  D_s = T(method in s) - T(baseline in s)         D = mean_s D_s

A comparison answers one of two questions (`questions`).

**These clients, other seeds.** Only the seeds are a sample. Clients and their
test examples are fixed, so noise of test examples is included only where it
differs between seeds. This is the paired t-test of D_s: D has the variance

  V_seeds = (sum_s (D_s - D)^2 / (S - 1) + h^2 / 6) / S

with S - 1 degrees of freedom. With few examples, the D_s lie on a grid, and
may agree by chance. If two D_s are equal, h is the least distance between
different D_s, otherwise 0: rounding to a grid of step h hides a variance of
h^2 / 12 in each method's value. One seed gives no interval. If each seed draws
new data, V_seeds includes the variance between data sets, too.

**Other clients, other seeds.** The clients are a sample, too:

  V_clients = max(0, K / (K - 1) mean_{s != s'} cov(D_s*, D_s'*),
                  W / S - V_seeds)
  W = K / (K - 1) mean_s var(D_s*)

D_s* is D_s over K clients drawn with replacement, the same draw for both
methods and for all seeds. Two seeds share nothing but the draw, so their
covariance over the draws is only the clients' part; noise of one client in one
seed is in V_seeds already. If the seeds have different clients, the covariance
vanishes, as it should. K / (K - 1) corrects the bootstrap's bias. W, the
clients' variance in a single seed, includes noise within the seed as well as
differences that all seeds share. So the variance of D is at least W / S, and
V_seeds + V_clients is, too. With one seed, V_seeds is unknown and left out, and
V_clients is W: such an interval says nothing about other seeds. With one
client, V_clients is left out instead.

**The interval** is D +- r. The parts V_seeds and V_clients have n_i = S - 1 and
K - 1 degrees of freedom, and t(n_i) is Student's quantile for each:

  r^2 = sum_i t(n_i)^2 V_i

These are Howe's limits of a sum ("Approximate confidence limits on the mean of
X + Y", 1974), which Zou and Donner (2008) call MOVER. With one part it is
Student's interval. A single t with Satterthwaite's degrees of freedom (1946)
would trust a V_seeds that is small by chance. A single t with S - 1 degrees of
freedom would, for few seeds, also widen the clients' part, which many clients
determine well. The p-value is one minus the confidence of the interval that
ends at 0. If nothing varies by more than float32 rounding, the variance has no
estimate, so there is neither interval nor p-value.

Intervals from the percentiles of a bootstrap over three seeds would be far too
narrow: it has ten different outcomes, and its variance is a third too small.
However, the intervals here are always symmetric. `benchmarks.false_certainty`
measures how often they find differences, both false and true ones.

The bootstrap of clients is by Efron (1979), the variance of rounding by
Sheppard (1898), the correction for several comparisons by Holm (1979).
"""

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from tff_fair.experiments.analysis import client_results, questions
from tff_fair.experiments.analysis.client_results import (
  Clients,
  Pair,
  ResultsBySeed,
  Statistic,
)
from tff_fair.metrics.comparison import TIE
from tff_fair.metrics.vectors import Vector

CONFIDENCE = 0.95

_SEED = 0  # The seed of draws is fixed: the same runs give the same interval.
_MAX_DRAWS, _MIN_DRAWS = 1000, 200
_DRAWN_CLIENTS = 200_000  # The target for the product of draws and clients.
_ROUNDING = 4 * TIE  # Rounding error of a difference, relative to the values.
_PRECISION = 1e-9  # The relative precision of a p-value.


class Part(NamedTuple):
  """A part of a difference's variance, with Student's degrees of freedom."""

  variance: float
  degrees_of_freedom: float


@dataclasses.dataclass(frozen=True)
class Difference:
  """A measure's value for a method minus its value for a baseline."""

  estimate: float  # The mean over common seeds; NaN if there is no common seed.
  parts: tuple[Part, ...]  # Parts of the variance; empty if nothing varies.
  num_seeds: int  # The number of seeds that both methods have.
  num_clients: int  # The number of clients that both methods have in some seed.
  confidence: float = CONFIDENCE
  span: float = math.inf  # The largest possible difference of two values.

  @property
  def standard_error(self) -> float:
    """The standard error; NaN without a variance."""
    return math.sqrt(sum(p.variance for p in self.parts)) or math.nan

  @property
  def low(self) -> float:
    """The interval's lower end; NaN without a variance."""
    return max(
      self.estimate - self._half_width(1 - self.confidence), -self.span
    )

  @property
  def high(self) -> float:
    """The interval's upper end; NaN without a variance."""
    return min(self.estimate + self._half_width(1 - self.confidence), self.span)

  @functools.cached_property
  def p_value(self) -> float:
    """The two-sided p-value for a difference of 0; NaN without a variance."""
    if not self.parts:
      return math.nan
    # The p-value lies between the least and the largest that would result if
    # all parts had the degrees of freedom of one part.
    t = -abs(self.estimate) / self.standard_error
    ends = [
      2 * float(special.stdtr(p.degrees_of_freedom, t)) for p in self.parts
    ]
    low, high = min(ends), max(ends)
    while high - low > _PRECISION * high:
      middle = (low + high) / 2
      if self._half_width(middle) > abs(self.estimate):
        low = middle
      else:
        high = middle
    return high

  def scaled(self, factor: float) -> "Difference":
    """Returns the difference in another unit: multiplied by a factor > 0."""
    return dataclasses.replace(
      self,
      estimate=factor * self.estimate,
      parts=tuple(Part(factor**2 * v, freedom) for v, freedom in self.parts),
      span=factor * self.span,
    )

  def corrected(self, factor: float) -> "Difference":
    """Returns the difference with its interval widened by Holm's factor."""
    return dataclasses.replace(
      self, confidence=1 - (1 - self.confidence) / factor
    )

  def _half_width(self, level: float) -> float:
    """Returns half the width of the interval with the confidence 1 - level."""
    if not self.parts:
      return math.nan
    return math.hypot(
      *(
        float(special.stdtrit(freedom, level / 2)) * math.sqrt(variance)
        for variance, freedom in self.parts
      )
    )


def difference(
  statistic: Statistic,
  method: ResultsBySeed,
  baseline: ResultsBySeed,
  span: float = math.inf,
  question: questions.Name = questions.OTHER_CLIENTS,
) -> Difference:
  """Returns how a method differs from a baseline, paired by seed and client."""
  pairs = client_results.pairs(method, baseline)
  if not pairs:
    return Difference(math.nan, (), 0, 0, span=span)
  ids = np.unique(np.concatenate([pair.ids for pair in pairs]))
  # With a NaN or infinite loss, the difference is NaN, too.
  with np.errstate(all="ignore"):
    values = np.array([p.values(statistic, np.ones(p.ids.size)) for p in pairs])
    changes = values[:, 0] - values[:, 1]
    estimate = float(changes.mean())
    parts: tuple[Part, ...] = ()
    if math.isfinite(estimate):
      rounding = _ROUNDING * np.abs(values).max()
      covariance = None
      if question == questions.OTHER_CLIENTS and ids.size > 1:
        covariance = _covariance_by_clients(statistic, pairs, ids)
      parts = variance_parts(changes, covariance, ids.size, rounding)
  return Difference(estimate, parts, len(pairs), ids.size, span=span)


def variance_parts(
  changes: Vector, covariance: Vector | None, num_clients: int, rounding: float
) -> tuple[Part, ...]:
  """Returns the parts V_seeds and V_clients, without those that are 0.

  There are none if a square overflows. V_clients is 0 without `covariance`, the
  result of `_covariance_by_clients`.
  """
  num_seeds = changes.size
  of_seeds = of_clients = 0.0
  if num_seeds > 1:
    hidden = np.square(_grid_step(changes, rounding)) / 6
    of_seeds = (float(changes.var(ddof=1)) + hidden) / num_seeds
  if covariance is not None:
    single = float(np.trace(covariance)) / num_seeds
    shared = single
    if num_seeds > 1:
      shared = float(covariance.sum() / num_seeds - single) / (num_seeds - 1)
    of_clients = max(shared, single / num_seeds - of_seeds, 0.0)
  if not of_seeds + of_clients > np.square(rounding) / num_seeds:
    return ()
  found = Part(of_seeds, num_seeds - 1), Part(of_clients, num_clients - 1)
  return tuple(part for part in found if part.variance > 0)


def _grid_step(changes: Vector, rounding: float) -> float:
  """Returns the step of the grid on which `changes` lie; 0 if unknown."""
  gaps = np.diff(np.sort(changes))
  steps = gaps[gaps > rounding]
  # Only values that lie on a grid can be equal.
  return float(steps.min()) if 0 < steps.size < gaps.size else 0.0


def memoize(statistic: Statistic) -> Statistic:
  """Returns `statistic` with a cache by the identity of its arguments."""
  # Keep the arguments alive, so that Python does not reuse their ids.
  known: dict[tuple[int, int], tuple[Clients, Vector, Vector]] = {}

  def remembered(clients: Clients, weights: Vector) -> Vector:
    key = (id(clients), id(weights))
    if key not in known:
      known[key] = (clients, weights, statistic(clients, weights))
    return known[key][-1]

  return remembered


def holm_factors(p_values: Sequence[float]) -> list[float]:
  """Returns the factors by which Holm's correction multiplies p-values."""
  p = np.asarray(p_values, np.float64)
  order = np.argsort(p, kind="stable")  # Puts NaN last.
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
  """Returns S seeds' unbiased covariances over client draws, float64[S, S]."""
  counts = _counts(ids.size)
  changes = []
  for pair in pairs:
    weights = counts
    if pair.ids.size < ids.size:
      weights = counts[:, np.searchsorted(ids, pair.ids)]
      # Scale to mean 1: clients that this seed lacks were drawn, too.
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
  """Returns how often each of K clients is in a draw, float64[draws, K]."""
  num_draws = max(_MIN_DRAWS, min(_MAX_DRAWS, _DRAWN_CLIENTS // num_clients))
  generator = np.random.Generator(np.random.PCG64(_SEED))
  shares = np.full(num_clients, 1 / num_clients)
  counts = generator.multinomial(num_clients, shares, size=num_draws)
  drawn = counts.astype(np.float64)
  drawn.flags.writeable = False
  return drawn
