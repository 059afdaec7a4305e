"""Tests of FedFA's rule: surprisal of accuracy and of participation."""

import collections
import math

import numpy as np
import pytest

from tests.methods import cohorts, in_graph
from tff_fair.methods import fedfa


def apply(ids, accuracy, state=None, *, b=0.5):
  cohort = cohorts.make(
    np.ones([len(ids), 1]), client_id=ids, accuracy=accuracy
  )
  return in_graph.apply(fedfa.FedFaRule(b=b), cohort, state)


def shares(arguments):
  """One logarithm at a time."""
  bits = [-math.log2(min(max(x, 1e-6), 1.0)) for x in arguments]
  total = math.fsum(bits)
  return [x / total if total else 1 / len(bits) for x in bits]


def expected(accuracy, times, b):
  total = math.fsum(accuracy)
  by_accuracy = shares([a / total if total else 0.0 for a in accuracy])
  by_times = shares([1 - s / sum(times) for s in times])
  return [
    (1 - b) * x + b * y for x, y in zip(by_accuracy, by_times, strict=True)
  ]


@pytest.mark.parametrize("b", [0, 0.3, 0.5, 1])
def test_rounds_with_new_and_returning_clients(b):
  rng = np.random.default_rng(0)
  # In no order, of either sign and beyond what floats can tell apart.
  population = np.array([5, -3, 2**62 + 1, 0, 2**62, 17, -(2**40), 8, 1])
  seen: collections.Counter[int] = collections.Counter()
  state = None
  for size in (3, 1, 9, 5, 2, 9, 7, 4, 1, 6):
    ids = rng.permutation(population)[:size]
    accuracy = rng.uniform(size=size)
    output = apply(ids, accuracy, state, b=b)
    seen.update(ids.tolist())
    times = [seen[k] for k in ids.tolist()]
    np.testing.assert_allclose(
      output.coefficients, expected(accuracy, times, b), rtol=1e-9
    )
    assert output.coefficients.sum() == pytest.approx(1, abs=1e-12)
    state = output.state
    assert state.client_id.tolist() == sorted(seen)
    assert dict(zip(*map(np.ndarray.tolist, state), strict=True)) == seen


@pytest.mark.parametrize(
  "accuracy",
  [
    [0.0, 0.0, 0.0],
    [1.0, 1.0, 1.0],
    [1.0, 0.0, 0.0],
    [0.5, 0.5, 0.0],
    [1e-30, 1.0, 0.5],
    [1e-38, 1e-38, 1e-38],
    [0.2, 0.2, 0.9],
  ],
  ids=str,
)
@pytest.mark.parametrize("b", [0, 0.5, 1])
def test_hard_accuracies(accuracy, b):
  output = apply([1, 2, 3], accuracy, b=b)
  np.testing.assert_allclose(
    output.coefficients, expected(accuracy, [1, 1, 1], b), rtol=1e-9, atol=1e-15
  )


@pytest.mark.parametrize("accuracy", [0.0, 1e-30, 0.7, 1.0])
@pytest.mark.parametrize("b", [0, 0.5, 1])
def test_one_client_has_all_the_weight(accuracy, b):
  # Its share of the accuracy is 1, which carries no information.
  state = None
  for _ in range(3):
    output = apply([12], [accuracy], state, b=b)
    np.testing.assert_allclose(output.coefficients, [1], rtol=1e-15)
    state = output.state
  np.testing.assert_array_equal(state.count, [3])


def test_a_veteran_among_newcomers():
  # 1 - s / sum s is below the least argument of the logarithm.
  veteran = fedfa.ParticipationCounts(
    np.array([7]), np.array([10**9], np.int64)
  )
  output = apply([3, 7], [0.5, 0.5], veteran, b=1)
  times = [1, 10**9 + 1]
  np.testing.assert_allclose(
    output.coefficients, expected([1, 1], times, 1), rtol=1e-7
  )
  np.testing.assert_array_equal(output.state.count, times)
