"""Tests of FedFV's external conflicts: clients that are away are remembered.

`rounds_test` has changing cohorts, round after round.
"""

import numpy as np
import pytest

from tests.methods import cohorts, in_graph
from tff_fair.methods import fedfv


def apply(rule, state, ids, updates, loss, remembered):
  """Runs a round with a memory of (age, id, update); returns d and output."""
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
G = E_1 + E_2  # The update of the cohort's client.


def along(vector):
  """Returns a vector's direction, with the length of G."""
  return vector / np.linalg.norm(vector) * np.sqrt(2)


def without(*targets):
  """Projects G on normal planes of `targets` in turn; restores its length."""
  g = G
  for h in targets:
    g = g - (g @ h) / (h @ h) * h
  return along(g)


H_1, H_2 = -E_1 + 0.2 * E_2, E_3 - E_2
H_3, H_4 = -E_1 + E_3, -2 * E_2
# The memory, as (age, client, update), and the expected direction.
CASES = {
  "a conflict with a client that is away": ([(1, 7, -E_1)], along(E_2)),
  "an agreement": ([(1, 7, E_1)], G),
  "orthogonal": ([(1, 7, E_3)], G),
  "opposite to orthogonal": ([(1, 7, -E_3)], G),
  "a zero update": ([(1, 7, 0 * E_1)], G),
  "a client that is back speaks for itself": ([(1, 1, -E_1)], G),
  "nothing": ([], G),
  "older ones come first": ([(1, 7, H_1), (2, 8, H_2)], without(H_2, H_1)),
  "those of one age together; one does not conflict": (
    [(1, 7, H_3), (1, 8, H_4), (1, 9, E_1)],
    without(H_3 + H_4),
  ),
  "along the whole direction": ([(1, 7, -3 * G)], 0 * G),
  "tiny": ([(1, 7, -1e-30 * E_1)], along(E_2)),
  "huge": ([(1, 7, -1e30 * E_1)], along(E_2)),
}


def one_round(remembered, *, state=10, cohort=(G,), ids=(1,)):
  """Returns the direction of a cohort without conflicts of its own."""
  rule = fedfv.FedFvRule(tau=2, alpha=1)
  updates = np.asarray(cohort)
  loss = np.arange(len(updates)) + 1.0
  d, _ = apply(rule, np.int64(state), np.array(ids), updates, loss, remembered)
  return d


@pytest.mark.parametrize("case", CASES)
def test_conflicts_with_what_is_remembered_are_projected(case):
  remembered, expected = CASES[case]
  np.testing.assert_allclose(one_round(remembered), expected, atol=1e-9)


@pytest.mark.parametrize(("state", "looks_back"), [(0, 0), (1, 0), (2, 1)])
def test_the_first_rounds_do_not_look_back(state, looks_back):
  d = one_round([(1, 7, -E_1)], state=state)
  expected = along(E_2) if looks_back else G
  np.testing.assert_allclose(d, expected, atol=1e-12)


def test_a_zero_mean_stays_zero():
  d = one_round([(1, 7, -E_1)], cohort=(E_1, -E_1), ids=(1, 2))
  np.testing.assert_array_equal(d, np.zeros(3))


def test_remembered_coefficients_are_no_client_s():
  # A remembered update's coefficient shows how far a conflict was reduced.
  rule = fedfv.FedFvRule(tau=1, alpha=1)
  updates = np.array([E_1 + E_2])
  _, output = apply(
    rule, np.int64(5), np.array([1]), updates, [1.0], [(1, 7, -2 * E_1)]
  )
  np.testing.assert_allclose(
    output.coefficients, np.sqrt(2) * np.array([1, 0.5]), rtol=1e-12
  )
  assert output.measurements["num_remembered"] == 1
