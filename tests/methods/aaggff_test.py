"""Tests of AAggFF's rules: mixing coefficients that learn from losses."""

import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.methods import cohorts, in_graph
from tff_fair.methods import aaggff

N = 9
FORMS = {
  "s": (aaggff.AaggffSRule, reference.aaggff_s_mixing),
  "d": (aaggff.AaggffDRule, reference.aaggff_d_mixing),
}
every_form = pytest.mark.parametrize("form", FORMS)


def apply(rule, ids, loss, state=None):
  cohort = cohorts.of_losses(loss, client_id=ids)
  return in_graph.eagerly(rule, cohort, state)


@every_form
@pytest.mark.parametrize(
  ("transform", "scale"),
  [
    *[(transform, 1.0) for transform in reference.CDFS],
    *[("gumbel", scale) for scale in (1e-30, 1e30)],
  ],
)
def test_mixing_over_rounds_is_that_of_numpy(form, transform, scale):
  rule_class, mixing = FORMS[form]
  rule = rule_class(num_clients=N, transform=transform)
  rng = np.random.default_rng(3)
  state, memory = None, {}
  for _ in range(12):
    ids = np.sort(rng.permutation(N)[: rng.integers(1, N + 1)])
    loss = scale * rng.lognormal(size=len(ids)) * rng.integers(0, 2, len(ids))
    output = apply(rule, ids, loss, state)
    wanted = mixing(memory, ids, loss, N, transform)
    np.testing.assert_allclose(output.state["mixing"], wanted, atol=2e-7)
    own = wanted[ids]
    np.testing.assert_allclose(output.coefficients, own / own.sum(), atol=2e-6)
    state = output.state


@pytest.mark.parametrize("transform", reference.CDFS)
def test_responses_are_cumulative_distribution_functions(transform):
  for loss in (
    [0.0, 0.0],
    [0.0, 3.0],
    [1e308, 1e308, 0.0],
    [5e-324, 0.0],
    [-5.0, 1.0, 2.0],
    [1e-300, 1.0, 1e300],
  ):
    found = aaggff.responses(tf.constant(loss, tf.float64), transform).numpy()
    assert np.all((found >= 0) & (found <= 1))
    if max(loss) < 1e300:
      wanted = reference.cdf_of_losses(np.array(loss), transform)
      np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-300)


@every_form
def test_one_client_has_all_the_weight(form):
  rule = FORMS[form][0](num_clients=1)
  state = None
  for loss in (0.0, 1e6, 0.1):
    output = apply(rule, [0], [loss], state)
    np.testing.assert_array_equal(output.coefficients, [1])
    state = output.state


@pytest.mark.parametrize("size", [2, 50, 500])
def test_newton_step_reaches_the_gap(size):
  rng = np.random.default_rng(size)
  rule = aaggff.AaggffSRule(num_clients=size)
  state = None
  for _ in range(6):
    ids = np.sort(rng.permutation(size)[: max(1, size // 3)])
    output = apply(rule, ids, rng.lognormal(sigma=2, size=len(ids)), state)
    state = output.state
    assert 0 <= output.measurements["duality_gap"] <= 1e-9
    assert np.all(state["mixing"] >= 0)
    assert state["mixing"].sum() == pytest.approx(1, abs=1e-12)
