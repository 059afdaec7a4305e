"""Tests of FedFV's external conflicts: clients that are away are remembered.

`rounds_test` has changing cohorts, round after round.
"""

import numpy as np
import pytest

from tests.methods import cohorts, in_graph
from tff_fair.methods import fedfv


def apply(rule, state, ids, updates, loss, remembered):
  """A round with updates of an age and a client; its direction and output."""
  ages, clients, rows = (
    zip(*remembered, strict=True) if remembered else [()] * 3
  )
  old = np.reshape(rows, [-1, updates.shape[1]])
  cohort = cohorts.make(
    updates, loss, client_id=ids, remembered=(clients, ages, old)
  )
  output = in_graph.apply(rule, cohort, state)
  return output.coefficients @ np.concatenate([updates, old]), output


E_1, E_2, E_3 = np.eye(3)


def one_round(remembered, *, tau=2, state=10, cohort=(E_1 + E_2,), ids=(1,)):
  """The direction of a cohort that does not conflict within itself."""
  rule = fedfv.FedFvRule(tau=tau, alpha=1)
  updates = np.asarray(cohort)
  loss = np.arange(len(updates)) + 1.0
  d, _ = apply(rule, np.int64(state), np.array(ids), updates, loss, remembered)
  return d


def along(vector, length):
  return vector / np.linalg.norm(vector) * length


def test_a_conflict_with_a_client_that_is_away_is_projected():
  d = one_round([(1, 7, -E_1)])
  np.testing.assert_allclose(d, along(E_2, np.sqrt(2)), atol=1e-12)


def test_without_a_conflict_the_memory_does_not_matter():
  for h in (E_1, E_3, -E_3, np.zeros(3)):
    np.testing.assert_allclose(one_round([(1, 7, h)]), E_1 + E_2, atol=1e-12)


def test_a_client_that_is_back_speaks_for_itself():
  d = one_round([(1, 1, -E_1)])
  np.testing.assert_allclose(d, E_1 + E_2, atol=1e-12)


@pytest.mark.parametrize(("state", "looks_back"), [(0, 0), (1, 0), (2, 1)])
def test_the_first_rounds_do_not_look_back(state, looks_back):
  d = one_round([(1, 7, -E_1)], tau=2, state=state)
  expected = along(E_2, np.sqrt(2)) if looks_back else E_1 + E_2
  np.testing.assert_allclose(d, expected, atol=1e-12)


def test_older_conflicts_are_projected_first():
  g, h_1, h_2 = E_1 + E_2, -E_1 + 0.2 * E_2, E_3 - E_2
  expected = g
  for h in (h_2, h_1):
    expected = expected - (expected @ h) / (h @ h) * h
  d = one_round([(1, 7, h_1), (2, 8, h_2)])
  np.testing.assert_allclose(d, along(expected, np.sqrt(2)), atol=1e-12)


def test_conflicts_of_one_age_are_projected_together():
  g, h_1, h_2, h_3 = E_1 + E_2, -E_1 + E_3, -2 * E_2, E_1
  g_con = h_1 + h_2  # h_3 does not conflict.
  expected = g - (g @ g_con) / (g_con @ g_con) * g_con
  d = one_round([(1, 7, h_1), (1, 8, h_2), (1, 9, h_3)])
  np.testing.assert_allclose(d, along(expected, np.sqrt(2)), atol=1e-12)


def test_a_conflict_along_the_whole_direction_leaves_zero():
  d = one_round([(1, 7, -3 * (E_1 + E_2))])
  np.testing.assert_array_equal(d, np.zeros(3))


def test_a_zero_mean_stays_zero():
  d = one_round([(1, 7, -E_1)], cohort=(E_1, -E_1), ids=(1, 2))
  np.testing.assert_array_equal(d, np.zeros(3))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_remembered_updates_of_another_scale(scale):
  d = one_round([(1, 7, -scale * E_1)])
  np.testing.assert_allclose(d, along(E_2, np.sqrt(2)), atol=1e-9)


def test_nothing_remembered():
  np.testing.assert_allclose(one_round([]), E_1 + E_2, atol=1e-12)


def test_remembered_coefficients_are_no_client_s():
  # Their sign and size say by how much a conflict was taken back.
  rule = fedfv.FedFvRule(tau=1, alpha=1)
  updates = np.array([E_1 + E_2])
  _, output = apply(
    rule, np.int64(5), np.array([1]), updates, [1.0], [(1, 7, -2 * E_1)]
  )
  np.testing.assert_allclose(
    output.coefficients, np.sqrt(2) * np.array([1, 0.5]), rtol=1e-12
  )
  assert output.measurements["num_remembered"] == 1
