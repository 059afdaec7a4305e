r"""Computes each client's gain between two models, on the same test examples.

The test and the intervals use both models' outputs for each example.

**The test.** Its null hypothesis is that the two models' outputs for an example
are exchangeable. A draw swaps them or not, by a coin toss for each example; the
p-value is the share of draws whose gain is at least as large, in absolute
value, as the observed gain. Under this hypothesis, the test is exact for every
score. Two models with the same expected score but different kinds of errors
(one model is often slightly wrong, the other is seldom wrong, but then very
wrong) are not exchangeable, and the test may detect that. A gain in accuracy
depends only on examples that exactly one model gets right. Its test is the
exact sign test (McNemar's), which needs no draws and assumes only equal
expected accuracies.

**The interval of a gain in accuracy** is for a difference of paired
proportions. With b examples that only the other model gets right, c that only
the first gets right, and n examples in all, the gain is (b - c) / n. The
interval is

  d +- z sqrt((b + c + 2) / m - d^2) / sqrt(m),  m = n + 4,  d = (b - c) / m

clipped to [-1, 1], and extended to include the gain itself. This is Agresti and
Min's interval ("Simple improved confidence intervals for comparing matched
proportions", 2005): Wald's interval, with a constant added to each of the four
cells of the table. Their constant is 1/2, here it is 1. With 1/2, the coverage
is 86 % for a gain of 15 points and 12 examples, if 15 % of the examples are
such that exactly one model gets them right. With 1, the coverage is at least
94 % for 3 to 60 examples, gains of 0 to 15 points, and shares of such examples
up to 90 %; Tango's score interval (1998) is wider and has a coverage of 92 %.
For three examples that both models get right, the interval is from -40 to 40
points.

**The interval of any other gain** is the gain +- t standard errors of the
jackknife (Tukey, 1958; Efron and Tibshirani, "An Introduction to the
Bootstrap", 1993, chapter 11), with Student's t. Its degrees of freedom depend
on the score:

  scores of classes   m - 1, for m examples in the smallest class; 1 / (2 m)^2
                      is added to the variance, because no error among few
                      examples does not mean an error rate of 0
  means over examples (log loss, Brier score, RMSE, MAE, R^2): (n - 1) / 3, for
                      n examples, because few examples cause most of the
                      variance

The interval is NaN with fewer than `LEAST_EXAMPLES` examples, if a class has
only one example, or if no example changes the gain.
`benchmarks.gain_intervals` measures the coverage.

AUC and average precision depend on the order of outputs, and the outputs of two
models may be on different scales, so these scores use the outputs' ranks.
Examples whose log odds are in the same histogram bin of `class_scores` share a
rank, so a gain is the difference of the models' scores by `class_scores`.
"""

import dataclasses
import math
import statistics
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from tff_fair.metrics import class_scores
from tff_fair.metrics.class_scores import NUM_CONFIDENCES
from tff_fair.metrics.intervals import CONFIDENCE
from tff_fair.metrics.vectors import Vector

ERRORS = frozenset({"rmse", "mae", "brier", "log_loss", "calibration_error"})
_REGRESSION_SCORES = ("rmse", "mae", "r2")
# Scores that are means over examples, or functions of such means.
_MEAN_SCORES = frozenset({*_REGRESSION_SCORES, "log_loss", "brier"})
LEAST_EXAMPLES = 8  # For the interval of a gain in any score but accuracy.
_MOST_GROUPS = 500  # Groups that the jackknife leaves out in turn.
_MAX_WEIGHTS_IN_MEMORY = 2_000_000  # Example weights at a time.
_ROUNDING = 1e-9
_UNBOUNDED = frozenset({*_REGRESSION_SCORES, "log_loss"})


class Gain(NamedTuple):
  """The gain of a client, positive if the other model is better."""

  # The difference of the scores, negated if less is better; NaN if a score is
  # undefined.
  gain: float
  low: float  # Ends of the interval; NaN with too few examples.
  high: float
  p_value: float  # Of the two-sided test that outputs are exchangeable.


class Outputs(NamedTuple):
  """The outputs of two models for a client's test examples."""

  # Classes, int[n], or numbers, float[n] or float[n, t].
  labels: npt.NDArray[np.generic]
  # The first model's outputs: logits, [n, classes]; or numbers, like labels.
  before: Vector
  after: Vector  # The other model's outputs.


def score(
  name: str,
  labels: npt.NDArray[np.generic],
  outputs: Vector,
  positive: int | None = None,
) -> float:
  """Returns a client's score by name; NaN if it is undefined.

  The arguments are those of `client_gain` and `Outputs`, for one model.
  """
  terms = _terms(name, labels, outputs)
  scored = _WeightedScore(name, labels, terms, positive)
  return float(scored(np.ones([1, len(labels)]))[0])


def client_gain(
  name: str,
  outputs: Outputs,
  *,
  positive: int | None = None,
  draws: int = 2000,
  seed: int | Sequence[int] = 0,
) -> Gain:
  """Returns a client's gain in a score from the first model to the other.

  `name` is one of `class_scores.NAMES`, rmse, mae or r2; `positive` is the
  class to score, as in `class_scores.score`. The test has `draws` draws, so
  p-values are at least 1 / (draws + 1); the test for accuracy needs no draws.
  """
  if name == "accuracy":
    right = [o.argmax(-1) == outputs.labels for o in outputs[1:]]
    return _accuracy_gain(right[0], right[1])
  labels, number = outputs.labels, len(outputs.labels)
  parts = [_terms(name, labels, o) for o in outputs[1:]]
  before, after = (_WeightedScore(name, labels, t, positive) for t in parts)
  both = _WeightedScore(
    name, np.concatenate([labels] * 2), np.concatenate(parts), positive
  )
  sign = -1 if name in ERRORS else 1
  once = np.ones([1, number])
  gain = sign * float(after(once)[0] - before(once)[0])
  if math.isnan(gain):
    return Gain(math.nan, math.nan, math.nan, math.nan)
  generator = np.random.default_rng(seed)

  def weighted_gain(weights: Vector) -> Vector:
    return np.asarray(after(weights) - before(weights))

  def of_exchange(part: npt.NDArray[np.int64]) -> Vector:
    stays = generator.integers(2, size=[part.size, number])
    other = 1 - stays
    return np.asarray(
      both(np.concatenate([other, stays], 1))
      - both(np.concatenate([stays, other], 1))
    )

  reach = _half_width(name, labels, positive, weighted_gain)
  exchanged = np.abs(_in_parts(of_exchange, draws, number))
  extreme = (exchanged >= abs(gain) - _ROUNDING).sum()
  # The observed outputs count as one more draw.
  p_value = float((1 + extreme) / (1 + draws))
  span = math.inf if name in _UNBOUNDED else 1.0
  return Gain(gain, max(gain - reach, -span), min(gain + reach, span), p_value)


def _in_parts(
  compute: Callable[[npt.NDArray[np.int64]], Vector], total: int, number: int
) -> Vector:
  """Computes results for 0 ... `total` - 1, in parts that fit into memory.

  `compute` maps the indices of a part to its results; one index needs `number`
  weights.
  """
  size = max(1, _MAX_WEIGHTS_IN_MEMORY // number)
  parts = np.split(np.arange(total), range(size, total, size))
  return np.concatenate([*map(compute, parts)])


def _accuracy_gain(
  before: npt.NDArray[np.bool_], after: npt.NDArray[np.bool_]
) -> Gain:
  import scipy.stats  # noqa: PLC0415  It takes a second.

  gained = int((after & ~before).sum())
  lost = int((before & ~after).sum())
  number = before.size
  gain = (gained - lost) / number
  p_value = 1.0
  if gained + lost:
    p_value = float(scipy.stats.binomtest(gained, gained + lost).pvalue)
  z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
  enlarged = number + 4
  middle = (gained - lost) / enlarged
  variance = (gained + lost + 2) / enlarged - middle**2
  reach = z * math.sqrt(variance / enlarged)
  low = max(-1.0, min(gain, middle - reach))
  high = min(1.0, max(gain, middle + reach))
  return Gain(gain, low, high, p_value)


def _half_width(
  name: str,
  labels: npt.NDArray[np.generic],
  positive: int | None,
  gain: Callable[[Vector], Vector],
) -> float:
  """Returns half the width of a gain's interval; NaN if examples are too few.

  `gain` maps B rows of weights of the examples, [B, n], to B gains.
  """
  number = len(labels)
  if number < LEAST_EXAMPLES:
    return math.nan
  groups = min(number, _MOST_GROUPS)
  # Examples may be sorted, so they are assigned to groups at random.
  place = np.random.default_rng(0).permutation(number) % groups
  values = _in_parts(
    lambda left_out: gain((place != left_out[:, None]) * 1.0), groups, number
  )
  variance = (groups - 1) * float(values.var())
  if name in _MEAN_SCORES:
    freedom = (number - 1) / 3
  else:
    chosen = labels if positive is None else labels == positive
    smallest = int(np.unique(chosen, return_counts=True)[1].min())
    freedom = smallest - 1.0
    variance += 1 / (2 * smallest) ** 2
  if freedom < 1 or not variance > _ROUNDING**2:
    return math.nan
  quantile = special.stdtrit(freedom, (1 + CONFIDENCE) / 2)
  return float(quantile) * math.sqrt(variance)


@dataclasses.dataclass(frozen=True)
class _WeightedScore:
  """Computes a score of weighted examples from their terms; see `_terms`."""

  name: str
  labels: npt.NDArray[np.generic]
  terms: Vector
  positive: int | None

  def __call__(self, weights: npt.NDArray[np.generic]) -> Vector:
    """Returns the scores for B rows of weights, [B, n]; NaN if undefined."""
    counts = np.asarray(weights, np.float64)
    if self.name in class_scores.WITH_HISTOGRAM:
      return self._rank_scores(counts)
    sums = counts @ self.terms
    if self.name in _REGRESSION_SCORES:
      return _score_of_numbers(self.name, sums)
    number = (sums.shape[1] - 2 - 3 * NUM_CONFIDENCES) // 3
    by_class, errors, confidences = np.split(
      sums, [3 * number, 3 * number + 2], axis=1
    )
    return class_scores.score(
      self.name,
      class_scores.ClassSums(
        by_class.reshape(-1, number, 3),
        errors,
        confidences.reshape(-1, NUM_CONFIDENCES, 3),
      ),
      self.positive,
    )

  def _rank_scores(self, weights: Vector) -> Vector:
    chosen = (
      range(self.terms.shape[1]) if self.positive is None else [self.positive]
    )
    of_classes = []
    for place in chosen:
      ranks, own = self.terms[:, place], self.labels == place
      order = np.argsort(ranks, kind="stable")
      starts = np.flatnonzero(np.diff(ranks[order], prepend=-np.inf))
      histogram = np.stack(
        [
          np.add.reduceat((weights * part)[:, order], starts, axis=1)
          for part in (~own, own)
        ],
        1,
      )
      empty = np.zeros([len(weights), 1, 3])
      of_classes.append(
        class_scores.score(
          self.name,
          class_scores.ClassSums(empty, empty, empty, histogram[:, None]),
          0,
        )
      )
    return class_scores.mean_of_known(np.stack(of_classes, -1))


def _terms(
  name: str, labels: npt.NDArray[np.generic], outputs: Vector
) -> Vector:
  """Returns each example's terms in the sums of a score, float64[n, ...].

  For AUC and average precision, returns each example's rank in each class.
  """
  if name in class_scores.WITH_HISTOGRAM:
    # Outputs keep their dtype, to get the same bins as clients compute.
    bins = class_scores.histogram_bins(log_odds(np.asarray(outputs)))
    return np.stack([_ranks(column) for column in bins.T], 1)
  outputs = np.asarray(outputs, np.float64)
  if name in _REGRESSION_SCORES:
    return _terms_of_numbers(labels, outputs)
  return _terms_of_classes(labels.astype(int), outputs)


def log_odds(logits: Vector) -> Vector:
  """Returns the log odds of each class against the others, [n, classes]."""
  columns = [
    logits[:, c] - np.logaddexp.reduce(np.delete(logits, c, 1), axis=1)
    for c in range(logits.shape[1])
  ]
  return np.stack(columns, 1)


def _ranks(values: npt.NDArray[np.int64]) -> Vector:
  """Returns the values' ranks in [0, n); equal values share their mean rank."""
  _, inverse, counts = np.unique(
    values, return_inverse=True, return_counts=True
  )
  last = np.cumsum(counts)
  return np.asarray((last - (counts + 1) / 2)[inverse])


def _terms_of_classes(labels: npt.NDArray[np.int_], logits: Vector) -> Vector:
  """Returns each example's terms of `class_scores.ClassSums`, as one row."""
  number = logits.shape[1]
  logs = logits - np.logaddexp.reduce(logits, axis=1)[:, None]
  p, is_label = np.exp(logs), np.eye(number)[labels]
  predicted = logits.argmax(1)
  is_predicted = np.eye(number)[predicted]
  counts = np.stack([is_label, is_predicted, is_label * is_predicted], -1)
  square = ((p - is_label) ** 2).sum(1) / (2 if number == 2 else 1)
  confidence = p.max(1)
  place = np.minimum(
    (confidence * NUM_CONFIDENCES).astype(int), NUM_CONFIDENCES - 1
  )
  values = np.stack(
    [np.ones_like(confidence), confidence, predicted == labels], -1
  )
  confidences = np.eye(NUM_CONFIDENCES)[place][..., None] * values[:, None]
  return np.concatenate(
    [
      counts.reshape(len(labels), -1),
      square[:, None],
      -logs[np.arange(len(labels)), labels][:, None],
      confidences.reshape(len(labels), -1),
    ],
    1,
  )


def _terms_of_numbers(
  labels: npt.NDArray[np.generic], outputs: Vector
) -> Vector:
  """Returns a row per example: 1, squared error, absolute error, y^2 and y.

  y is the example's label minus the mean label.
  """
  y = np.asarray(labels, np.float64).reshape(len(labels), -1)
  error = y - outputs.reshape(len(labels), -1)
  y = y - y.mean(0)
  return np.concatenate(
    [
      np.ones([len(y), 1]),
      (error**2).mean(1)[:, None],
      np.abs(error).mean(1)[:, None],
      (y**2).mean(1)[:, None],
      y,
    ],
    1,
  )


def _score_of_numbers(name: str, sums: Vector) -> Vector:
  count, squares, absolute, moment = sums[:, :4].T
  if name == "mae":
    return np.asarray(absolute / count)
  if name == "rmse":
    return np.sqrt(squares / count)
  means = sums[:, 4:] / count[:, None]
  total = moment - count * (means**2).mean(1)
  scale = np.where(total > _ROUNDING * moment.max(initial=0), total, np.nan)
  return np.asarray(1 - squares / scale)
