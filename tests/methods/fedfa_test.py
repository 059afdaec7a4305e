"""Tests of FedFA's rule: surprisal of accuracy and of participation."""

import collections

import numpy as np
import pytest

from tests import reference
from tests.methods import cohorts, in_graph
from tff_fair.methods import fedfa


def apply(ids, accuracy, state=None, *, b=0.5, seen=None):
  """Runs a round; compares it with NumPy if `seen` has past participations."""
  updates = np.eye(len(ids))
  cohort = cohorts.make(updates, client_id=ids, accuracy=accuracy)
  output = in_graph.apply(fedfa.FedFaRule(b=b), cohort, state)
  if seen is not None:
    clients = cohorts.clients(cohort, updates)
    expected = reference.fedfa(clients, {"counts": seen}, b)
    np.testing.assert_allclose(output.coefficients, expected, rtol=1e-9)
  return output


@pytest.mark.parametrize("b", [0, 0.3, 0.5, 1])
def test_rounds_with_new_and_returning_clients(b):
  rng = np.random.default_rng(0)
  # Ids in no order, of both signs, some too close for floats to distinguish.
  population = np.array([5, -3, 2**62 + 1, 0, 2**62, 17, -(2**40), 8, 1])
  seen: collections.Counter[int] = collections.Counter()
  state = None
  for size in (3, 1, 9, 5, 2, 9, 7, 4, 1, 6):
    ids = rng.permutation(population)[:size]
    output = apply(ids, rng.uniform(size=size), state, b=b, seen=seen)
    assert output.coefficients.sum() == pytest.approx(1, abs=1e-12)
    state = output.state
    assert state.client_id.tolist() == sorted(seen)
    assert dict(zip(*map(np.ndarray.tolist, state), strict=True)) == seen


@pytest.mark.parametrize("accuracy", [0.0, 1e-30, 0.7, 1.0])
@pytest.mark.parametrize("b", [0, 0.5, 1])
def test_one_client_has_all_the_weight(accuracy, b):
  # The client's share of the accuracy is 1, which carries no information.
  state = None
  for _ in range(3):
    output = apply([12], [accuracy], state, b=b)
    np.testing.assert_allclose(output.coefficients, [1], rtol=1e-15)
    state = output.state
  np.testing.assert_array_equal(state.count, [3])


def test_a_veteran_among_newcomers():
  # 1 - the veteran's share of participations is below 1e-6, the least argument
  # of the logarithm.
  veteran = fedfa.ParticipationCounts(
    np.array([7]), np.array([10**9], np.int64)
  )
  output = apply([3, 7], [0.5, 0.5], veteran, b=1, seen={7: 10**9})
  np.testing.assert_array_equal(output.state.count, [1, 10**9 + 1])
