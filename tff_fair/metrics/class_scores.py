"""Computes scores of classifiers from sums that a client can send.

A client sends these sums instead of its examples. Their size does not depend on
the number of examples, and they can be added over clients. With C the number of
classes:

  counts        [C, 3], by class: the numbers of examples of the class, of
                predictions of the class, and of hits (examples of the class for
                which it is predicted): the margins and the diagonal of the
                confusion matrix.
  errors        [2]: the sums of the squared error and of the log loss.
  confidences   [15, 3], by the probability of the predicted class, in bins of
                equal width: the number of examples, the sum of these
                probabilities, and the number of hits.
  histogram     [C, 2, 4096], by class: the numbers of examples of other classes
                and of the class, by the log odds that the model gives the
                class, in bins 1/64 wide from -32 to 32; the first and the last
                bin include all values beyond.

All sums may have leading axes, such as [K, ...] for K clients. Scores treat
examples in the same bin of the histogram as tied; see `histogram_error`.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tff_fair.metrics.vectors import Vector

_Counts = npt.NDArray[np.float64]
NUM_CONFIDENCES = 15
# The number of the histogram's bins, and of bins per unit of log odds.
NUM_BINS, BINS_PER_UNIT = 4096, 64


class ClassSums(NamedTuple):
  """The sums of one or more clients; the module defines their shapes."""

  counts: _Counts  # By class.
  errors: _Counts  # Of the predicted probabilities.
  confidences: _Counts  # By the probability of the predicted class.
  # By class and log odds; None if it was not requested.
  histogram: _Counts | None = None


def score(name: str, sums: ClassSums, positive: int | None = None) -> Vector:
  """Returns a score of one or more clients from their sums.

  Args:
    name: One of `NAMES`.
    sums: The sums, with any leading axes.
    positive: The class for which to compute precision, recall, F1, AUC and
      average precision, against all others. None takes the mean over the
      classes for which the score is defined.

  Returns:
    float64[...]; NaN where the score is undefined: recall, precision and F1
    need an example of the class; AUC and average precision need an example of
    the class and one of another class.
  """
  if name in _OVERALL_SCORES:
    return _OVERALL_SCORES[name](sums)
  if name in WITH_HISTOGRAM:
    if sums.histogram is None:
      raise ValueError(f"{name} needs the histogram, which was not counted.")
    if (front := sums.histogram.shape[:-3]) != ():
      # One client at a time, because float64 histograms of 30 clients and 500
      # classes take 1 GB.
      of_each = [
        score(name, sums._replace(histogram=histogram), positive)
        for histogram in sums.histogram
      ]
      return np.array(of_each, np.float64).reshape(front)
    others, own = np.moveaxis(sums.histogram, -2, 0)
    is_known = (others.sum(-1) > 0) & (own.sum(-1) > 0)
    by_class = WITH_HISTOGRAM[name](others, own)
  else:
    examples, predicted, hits = np.moveaxis(sums.counts, -1, 0)
    is_known = examples > 0
    by_class = _BY_CLASS[name](examples, predicted, hits)
  return _of_classes(np.where(is_known, by_class, np.nan), positive)


def histogram_bins(log_odds: npt.ArrayLike) -> npt.NDArray[np.int64]:
  """Returns the index of the histogram bin of each number; NaN counts as 0."""
  scaled = np.nan_to_num(np.floor(np.asarray(log_odds) * BINS_PER_UNIT))
  place = np.clip(scaled + NUM_BINS // 2, 0, NUM_BINS - 1)
  return np.asarray(place, np.int64)


def histogram_error(
  name: str, sums: ClassSums, positive: int | None = None
) -> Vector:
  """Returns a bound on the error that the histogram's bins cause in a score.

  AUC is a mean over pairs of an example of the class and one of another class.
  A pair in the same bin adds 1/2, so AUC's error is at most half the share of
  such pairs. Average precision is between its values for the best and the worst
  order within bins.

  Args:
    name: "auc" or "average_precision".
    sums: As for `score`.
    positive: As for `score`.

  Returns:
    float64[...]: the bound on the difference from the score with exact log
    odds; NaN where the score is undefined.
  """
  assert sums.histogram is not None
  others, own = np.moveaxis(sums.histogram, -2, 0)
  if name == "auc":
    pairs = own.sum(-1) * others.sum(-1)
    by_class = ratio((own * others).sum(-1), 2 * pairs)
  else:
    by_class = _precision_error(others, own)
  return _of_classes(by_class, positive)


def _of_classes(by_class: Vector, positive: int | None) -> Vector:
  """Returns the value of class `positive`; if None, the mean over classes.

  The mean is over the classes whose value is not NaN.
  """
  if positive is None:
    return mean_of_known(by_class)
  return np.asarray(by_class[..., positive])


def mean_of_known(values: Vector) -> Vector:
  """Returns the mean, along the last axis, of the values that are not NaN."""
  known = ~np.isnan(values)
  return ratio(np.where(known, values, 0).sum(-1), known.sum(-1))


def rarest_class(counts: np.ndarray) -> int:
  """Returns the class with the fewest examples; the last one in a tie.

  `counts`, [..., C], are numbers of examples, to be added over all other axes.
  """
  examples = counts.reshape(-1, counts.shape[-1]).sum(0)
  return int(examples.size - 1 - np.argmin(examples[::-1]))


def _calibration_error(sums: ClassSums) -> Vector:
  _, confidence, hits = np.moveaxis(sums.confidences, -1, 0)
  return ratio(np.abs(confidence - hits).sum(-1), _number(sums))


def _number(sums: ClassSums) -> Vector:
  return np.asarray(sums.counts[..., 0].sum(-1))


def _auc(others: Vector, own: Vector) -> Vector:
  below = np.cumsum(others, -1) - others / 2
  return ratio((own * below).sum(-1), own.sum(-1) * others.sum(-1))


def _average_precision(others: Vector, own: Vector) -> Vector:
  hits, false = (counts_from_top(counts) for counts in (own, others))
  precision = np.nan_to_num(ratio(hits, hits + false))
  return ratio((own * precision).sum(-1), own.sum(-1))


def _precision_error(others: Vector, own: Vector) -> Vector:
  """Returns a bound on the error of average precision, by class."""
  hits, false = (counts_from_top(counts) for counts in (own, others))
  taken = hits - own + 1  # The hits in higher bins, and one in this bin.
  ones = np.ones_like(hits)
  highest, shown, lowest = (
    np.divide(a, b, out=ones.copy(), where=own > 0)
    for a, b in (
      (hits, hits + false - others),
      (hits, hits + false),
      (taken, taken + false),
    )
  )
  above = ratio((own * (highest - shown)).sum(-1), own.sum(-1))
  below = ratio((own * (shown - lowest)).sum(-1), own.sum(-1))
  known = (own.sum(-1) > 0) & (others.sum(-1) > 0)
  return np.where(known, np.maximum(above, below), np.nan)


def counts_from_top(counts: Vector) -> Vector:
  """Returns, for each bin, the number of examples in this or a higher bin."""
  return np.cumsum(counts[..., ::-1], -1)[..., ::-1]


def ratio(part: npt.ArrayLike, whole: npt.ArrayLike) -> Vector:
  """Returns part / whole in float64; NaN where the whole is 0."""
  part, whole = (np.asarray(a, np.float64) for a in (part, whole))
  return np.divide(
    part, whole, out=np.full(part.shape, np.nan), where=whole > 0
  )


_OVERALL_SCORES: Mapping[str, Callable[[ClassSums], Vector]] = {
  "accuracy": lambda s: ratio(s.counts[..., 2].sum(-1), _number(s)),
  "balanced_accuracy": lambda s: score("recall", s),
  "brier": lambda s: ratio(s.errors[..., 0], _number(s)),
  "log_loss": lambda s: ratio(s.errors[..., 1], _number(s)),
  "calibration_error": _calibration_error,
}
# Functions of the numbers of a class's examples, predictions and hits. As in
# scikit-learn, the precision of a class that is never predicted is 0.
_BY_CLASS: Mapping[str, Callable[[Vector, Vector, Vector], Vector]] = {
  "f1": lambda examples, predicted, hits: ratio(2 * hits, examples + predicted),
  "precision": lambda _, predicted, hits: np.nan_to_num(ratio(hits, predicted)),
  "recall": lambda examples, _, hits: ratio(hits, examples),
}
WITH_HISTOGRAM: Mapping[str, Callable[[Vector, Vector], Vector]] = {
  "auc": _auc,
  "average_precision": _average_precision,
}
NAMES = (*_OVERALL_SCORES, *_BY_CLASS, *WITH_HISTOGRAM)
