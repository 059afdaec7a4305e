"""Tests of AdaFedAdam's rule: its certainty and its measurements.

`rule_contract_test` compares its coefficients with NumPy.
"""

import numpy as np
import pytest

from tests import reference
from tests.methods import cohorts, in_graph
from tests.methods.settings import HARD
from tff_fair.methods import adafedadam


def apply(cohort, alpha=1.0):
  return in_graph.apply(adafedadam.AdaFedAdamRule(alpha=alpha), cohort)


@pytest.mark.parametrize("alpha", [0, 0.01, 1.0])
@pytest.mark.parametrize("case", HARD)
def test_certainty_is_that_of_the_paper_above_a_floor(case, alpha):
  cohort = cohorts.make(**HARD[case])
  output = apply(cohort, alpha)
  clients = cohorts.clients(cohort, HARD[case]["updates"])
  _, certainty = reference.pseudo_gradient(clients, alpha)
  reported = output.measurements
  assert reported["certainty"] == pytest.approx(certainty, rel=1e-9)
  assert reported["certainty_floored"] == (certainty < 1e-3)
  assert output.for_finalizer["certainty"] == max(reported["certainty"], 1e-3)


def test_one_step_has_a_certainty_of_one():
  # With Delta_k = eta grad F_k, U_k is the gradient.
  gradients, loss, n = cohorts.random(5, d=4)
  cohort = cohorts.make(
    0.05 * gradients,
    loss,
    n,
    learning_rate=0.05,
    gradient_norm=np.linalg.norm(gradients, axis=1),
  )
  output = apply(cohort, alpha=0)
  np.testing.assert_allclose(
    output.coefficients @ (0.05 * gradients),
    n / n.sum() @ gradients,
    rtol=1e-12,
  )
  assert output.measurements["certainty"] == pytest.approx(1, abs=1e-12)
  assert output.measurements["certainty_floored"] == 0


def test_losses_below_0_count_as_0():
  updates, _, n = cohorts.random(3, d=6)

  def weights(loss, initial_loss):
    loss, initial_loss = np.array(loss), np.array(initial_loss)
    cohort = cohorts.make(updates, loss, n, initial_loss=initial_loss)
    scale = cohort.gradient_norm / np.linalg.norm(updates, axis=1)
    return apply(cohort, alpha=2.0).coefficients / scale

  # The second loss has fallen below 0; the third was below 0 from the start.
  w = n * [0.25, 0, 1]
  found = weights([0.5, -0.1, -3.0], [1.0, 1.0, -2.0])
  np.testing.assert_allclose(found, w / w.sum(), rtol=1e-12)
  np.testing.assert_array_equal(weights([-1.0] * 3, [1.0] * 3), np.zeros(3))
  np.testing.assert_allclose(
    weights([-2.0, -3.0, 1.0], [-1.0] * 3), n / n.sum(), rtol=1e-12
  )
