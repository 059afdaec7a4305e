"""Tests that scores from sums agree with scikit-learn's from the examples."""

import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from tff_fair.metrics import class_scores

pytestmark = pytest.mark.pure

BINS, PER_UNIT = 4096, 64


def draw(seed, number, num_classes, spread=3.0):
  """Returns labels, and log odds that depend on them."""
  generator = np.random.default_rng(seed)
  labels = generator.integers(num_classes, size=number)
  logits = generator.normal(0, spread, [number, num_classes])
  logits[np.arange(number), labels] += generator.normal(1, 2, number)
  return labels, logits


def probabilities(logits):
  shifted = np.exp(logits - logits.max(1, keepdims=True))
  return shifted / shifted.sum(1, keepdims=True)


def sums(labels, logits):
  """Returns the sums that scores need, added up example by example."""
  number = logits.shape[1]
  counts, histogram = np.zeros([number, 3]), np.zeros([number, 2, BINS])
  confidences, errors = np.zeros([15, 3]), np.zeros(2)
  for label, p in zip(labels, probabilities(logits), strict=True):
    predicted = int(p.argmax())
    counts[label, 0] += 1
    counts[predicted, 1] += 1
    counts[label, 2] += label == predicted
    square = np.sum((p - np.eye(number)[label]) ** 2)
    errors += square / (2 if number == 2 else 1), -np.log(p[label])
    confidences[min(int(15 * p.max()), 14)] += 1, p.max(), label == predicted
    for c in range(number):
      odds = np.log(p[c]) - np.log(np.delete(p, c).sum())
      place = int(np.floor(odds * PER_UNIT)) + BINS // 2
      histogram[c, int(label == c), np.clip(place, 0, BINS - 1)] += 1
  return class_scores.ClassSums(counts, errors, confidences, histogram)


OF_CLASS = {
  "precision": sklearn_metrics.precision_score,
  "recall": sklearn_metrics.recall_score,
  "f1": sklearn_metrics.f1_score,
}
OF_ORDER = {
  "auc": sklearn_metrics.roc_auc_score,
  "average_precision": sklearn_metrics.average_precision_score,
}


def by_sklearn(name, labels, logits, positive=None):
  p, own = probabilities(logits), np.unique(labels)
  predicted = p.argmax(1)
  chosen = own if positive is None else [positive]
  if name in OF_CLASS:
    return OF_CLASS[name](
      labels, predicted, labels=chosen, average="macro", zero_division=0
    )
  if name in OF_ORDER:
    return np.mean([OF_ORDER[name](labels == c, p[:, c]) for c in chosen])
  if name == "brier":
    if logits.shape[1] == 2:
      return sklearn_metrics.brier_score_loss(labels, p[:, 1])
    return np.mean(np.sum((p - np.eye(logits.shape[1])[labels]) ** 2, 1))
  return {
    "accuracy": lambda: sklearn_metrics.accuracy_score(labels, predicted),
    "balanced_accuracy": lambda: sklearn_metrics.balanced_accuracy_score(
      labels, predicted
    ),
    "log_loss": lambda: sklearn_metrics.log_loss(
      labels, p, labels=range(logits.shape[1])
    ),
    "calibration_error": lambda: calibration_error(labels, p),
  }[name]()


def calibration_error(labels, p):
  """Returns Guo et al.'s (2017) calibration error; scikit-learn has none."""
  confidence, is_hit = p.max(1), p.argmax(1) == labels
  total = 0.0
  for low in np.arange(15) / 15:
    inside = (confidence >= low) & (confidence < low + 1 / 15 + 1e-12)
    if inside.any():
      gap = abs(confidence[inside].mean() - is_hit[inside].mean())
      total += inside.mean() * gap
  return total


def largest_error(name, found, positive=None):
  if name not in class_scores.WITH_HISTOGRAM:
    return 1e-9
  return 1e-9 + class_scores.histogram_error(name, found, positive)


@pytest.mark.parametrize("name", class_scores.NAMES)
@pytest.mark.parametrize(
  ("number", "num_classes", "positive"),
  [(200, 2, 1), (200, 2, 0), (301, 2, None), (150, 5, None), (150, 5, 3)],
)
def test_agrees_with_scikit_learn(name, number, num_classes, positive):
  for seed in range(3):
    labels, logits = draw(seed, number, num_classes)
    found = sums(labels, logits)
    expected = by_sklearn(name, labels, logits, positive)
    error = abs(class_scores.score(name, found, positive) - expected)
    assert error <= largest_error(name, found, positive)


@pytest.mark.parametrize("name", class_scores.WITH_HISTOGRAM)
@pytest.mark.parametrize("spread", [1e-3, 0.02, 1.0, 40.0])
def test_the_largest_error_of_the_histogram_holds(name, spread):
  """Holds even if nearly all examples are in one bin, or beyond the last."""
  errors = []
  for seed in range(20):
    generator = np.random.default_rng(seed)
    labels = np.repeat([0, 1], [60, 12])
    odds = generator.normal(0, spread, 72) + spread * labels / 2
    logits = np.stack([np.zeros(72), odds], 1)
    found = sums(labels, logits)
    expected = OF_ORDER[name](labels, odds)
    error = abs(class_scores.score(name, found, 1) - expected)
    bound = class_scores.histogram_error(name, found, 1)
    assert error <= bound + 1e-12
    errors.append((error, bound))
  mean_error, mean_bound = np.mean(errors, 0)
  if spread == 1.0:
    assert mean_bound < 0.01
  if spread == 1e-3:
    assert mean_error > 0.01


def test_examples_a_bin_apart_are_never_confused():
  labels = np.array([0, 1] * 20)
  odds = (np.arange(40) - 20) / PER_UNIT + 1e-6
  found = sums(labels, np.stack([np.zeros(40), odds], 1))
  expected = sklearn_metrics.roc_auc_score(labels, odds)
  assert class_scores.score("auc", found, 1) == pytest.approx(expected)
  assert class_scores.histogram_error("auc", found, 1) == 0


@pytest.mark.parametrize("label", [0, 1])
def test_a_client_with_one_class_has_no_order(label):
  labels = np.full(30, label)
  found = sums(labels, draw(0, 30, 2)[1])
  for name in class_scores.WITH_HISTOGRAM:
    assert np.isnan(class_scores.score(name, found, 1))
    assert np.isnan(class_scores.score(name, found))
    assert np.isnan(class_scores.histogram_error(name, found, 1))
  for name in ("recall", "precision", "f1"):
    value = class_scores.score(name, found, 1)
    assert np.isnan(value) == (label == 0)
  for name in ("accuracy", "balanced_accuracy", "brier", "log_loss"):
    assert np.isfinite(class_scores.score(name, found))


def test_sums_add_up_over_clients():
  parts = [draw(seed, 40, 3) for seed in range(4)]
  stacked = class_scores.ClassSums(
    *map(np.stack, zip(*(sums(*part) for part in parts), strict=True))
  )
  whole = class_scores.ClassSums(*(array.sum(0) for array in stacked))
  labels, logits = map(np.concatenate, zip(*parts, strict=True))
  for name in class_scores.NAMES:
    expected = by_sklearn(name, labels, logits)
    error = abs(class_scores.score(name, whole) - expected)
    assert error <= largest_error(name, whole)
    each = [by_sklearn(name, *part) for part in parts]
    errors = np.abs(class_scores.score(name, stacked) - each)
    assert (errors <= largest_error(name, stacked)).all()


def test_a_class_that_is_never_predicted_has_no_precision_to_speak_of():
  found = sums(np.array([0, 0, 1]), np.array([[1.0, 0]] * 3))
  assert class_scores.score("precision", found, 1) == 0
  assert class_scores.score("f1", found, 1) == 0


def test_the_rarest_class_is_that_of_all_clients_together():
  counts = np.array([[1, 9], [50, 0]])
  assert class_scores.rarest_class(counts) == 1
  counts = np.array([[5, 5], [5, 5]])
  assert class_scores.rarest_class(counts) == 1
