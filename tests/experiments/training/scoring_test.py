"""Tests of clients' RMSE, R² and ranges of outputs."""

import math

import numpy as np
import pytest

from tff_fair.client_works.output_ranges import Outputs
from tff_fair.experiments.training import scoring

pytestmark = pytest.mark.pure


def test_agrees_with_sums_over_examples():
  generator = np.random.default_rng(0)
  labels = [generator.normal(k, 1 + k, 5 + k) for k in range(4)]
  outputs = [y + generator.normal(0, 2, y.size) for y in labels]
  pairs = list(zip(labels, outputs, strict=True))
  squared = np.array([np.mean((y - o) ** 2) for y, o in pairs])
  variances = np.array([scoring.variance(y) for y in labels])
  rmse, r2 = scoring.rmse_and_r2(squared, variances, label_scale=-77.0)
  for k, (y, o) in enumerate(pairs):
    sse = math.fsum((y - o) ** 2)
    sst = math.fsum((y - math.fsum(y) / y.size) ** 2)
    assert rmse[k] == pytest.approx(77 * math.sqrt(sse / y.size), rel=1e-12)
    assert r2[k] == pytest.approx(1 - sse / sst, rel=1e-10)


@pytest.mark.parametrize("value", [0.1, 1 / 3, 1e8 + 0.1, 0.0])
@pytest.mark.parametrize("number", [1, 3, 1000])
def test_equal_labels_have_no_variance_and_no_r2(value, number):
  labels = np.full(number, value, np.float32)
  assert scoring.variance(labels) == 0
  rmse, r2 = scoring.rmse_and_r2(np.array([4.0]), np.zeros(1), 1.0)
  assert (rmse[0], math.isnan(r2[0])) == (2.0, True)


def test_each_of_several_numbers_has_a_mean_of_its_own():
  labels = np.random.default_rng(0).normal([0, 100], [1, 2], [50, 2])
  expected = np.mean((labels - labels.mean(axis=0)) ** 2)
  assert scoring.variance(labels) == pytest.approx(expected, rel=1e-12)
  assert scoring.variance(np.full([3, 2], [0.1, 7])) == 0


def test_the_variance_of_large_labels_keeps_its_digits():
  labels = 1e7 + np.arange(4, dtype=np.float32)
  assert scoring.variance(labels) == pytest.approx(1.25)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_model_that_diverged_has_an_infinite_error(loss):
  rmse, r2 = scoring.rmse_and_r2(
    np.array([loss, loss], np.float32), np.array([1.0, 0.0]), 2.0
  )
  assert rmse.tolist() == [math.inf, math.inf]
  assert r2[0] == -math.inf
  assert math.isnan(r2[1])


def _ranges(low, high, labels=(0.0, 3.0), **columns):
  """Returns the ranges of two clients that output only `low` and `high`."""
  ends = [
    [-output, output, -label, label]
    for output, label in zip((low, high), labels, strict=True)
  ]
  columns = {"output_ends": ends, "loss": [1.0, 2.0], **columns}
  return {name: np.array(column) for name, column in columns.items()}


def test_a_constant_prediction_is_there_only_if_labels_differ():
  def of(*ranges):
    return scoring.summarize_outputs(_ranges(*ranges), Outputs("class"))

  assert of(2.0, 2.0) == {"constant_prediction": {"class": 2.0}}
  assert of(2.0, 3.0) == {}
  assert of(2.0, 2.0, (1.0, 1.0)) == {}
  assert of(-math.inf, math.inf) == {}
  diverged = _ranges(0.0, 0.0, loss=[1.0, math.nan])
  assert scoring.summarize_outputs(diverged, Outputs("class")) == {}
  assert scoring.summarize_outputs(_ranges(2.0, 2.0), None) == {}


def test_r2_over_all_examples_of_all_clients():
  labels = np.array([[1.0, 2.0, 4.0], [7.0, 3.0, 5.0]])
  outputs = labels + np.array([[1.0, 0.0, -2.0], [0.5, 0.0, 3.0]])
  squared = ((labels - outputs) ** 2).sum(1)

  def of(squared, labels):
    sums = {
      "num_examples": [3, 3],
      "label_sums": np.stack([labels, labels**2], 1).sum(2, keepdims=True),
      "squared": squared,
    }
    columns = _ranges(0.0, 1.0, **sums)
    return scoring.summarize_outputs(columns, Outputs("number"))

  expected = 1 - squared.sum() / ((labels - labels.mean()) ** 2).sum()
  assert of(squared, labels) == {"r2_pooled": pytest.approx(expected)}
  assert of([math.nan, 1.0], labels) == {"r2_pooled": -math.inf}
  assert of(squared, np.full([2, 3], 0.1)) == {}
