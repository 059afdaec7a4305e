"""Tests of AFL's rule: weights over the population that follow the losses."""

import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.methods import cohorts, in_graph
from tff_fair.methods import afl

N = 12


def apply(ids, loss, state=None, *, n=N, rate=0.1):
  rule = afl.AflRule(num_clients=n, lambda_learning_rate=rate)
  return in_graph.apply(rule, cohorts.of_losses(loss, client_id=ids), state)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e6])
@pytest.mark.parametrize("rate", [1e-3, 0.1, 5.0])
def test_weights_over_rounds_are_those_of_numpy(rate, scale):
  rng = np.random.default_rng(0)
  memory, state = {"lambda": np.full(N, 1 / N)}, None
  for _ in range(10):
    ids = rng.permutation(N)[: rng.integers(1, N + 1)]
    loss = scale * rng.lognormal(size=len(ids))
    output, own = apply(ids, loss, state, rate=rate), memory["lambda"][ids]
    clients = cohorts.clients(
      cohorts.of_losses(loss, client_id=ids), np.eye(len(ids))
    )
    wanted = reference.afl(clients, memory, N, rate)
    np.testing.assert_allclose(output.coefficients, wanted, atol=1e-9)
    assert output.measurements["lambda_min"] == pytest.approx(min(own))
    assert output.measurements["lambda_max"] == pytest.approx(max(own))
    np.testing.assert_allclose(output.state, memory["lambda"], atol=1e-9)
    state = output.state


@pytest.mark.parametrize(
  "loss",
  [
    [0.0, 0.0, 0.0],
    [1e-30, 0.0, 2e-30],
    [1e6, 1e6, 1e6],
    [1e6, 1e-30, 0.0],
    [1e30, 1.0, 2.0],
    [-1e6, 0.5, -3.0],
    [5e-324, 1.0, 1.0],
  ],
  ids=str,
)
def test_hard_losses_keep_the_weights_on_the_simplex(loss):
  state = None
  for _ in range(20):
    output = apply([3, 0, 7], loss, state)
    state = output.state
    assert np.all(np.isfinite(output.coefficients))
    assert np.all(state >= 0)
    assert state.sum() == pytest.approx(1, abs=1e-12)


def test_a_rate_of_zero_keeps_the_weights_for_ever():
  state = None
  for _ in range(40):
    output = apply([1, 5, 6], [1e6, 1.0, 0.0], state, rate=0)
    state = output.state
  np.testing.assert_allclose(state, np.full(N, 1 / N), rtol=1e-12)
  np.testing.assert_allclose(output.coefficients, np.full(3, 1 / 3), rtol=1e-12)


def test_a_cohort_without_weight_stands_still_but_gains_weight():
  state = np.eye(N)[5]
  output = apply([1, 6], [2.0, 3.0], state, rate=0.1)
  np.testing.assert_array_equal(output.coefficients, [0, 0])
  assert output.measurements["lambda_max"] == 0
  expected = reference.project_to_simplex(
    np.eye(N)[5] + [0, 0.2, 0, 0, 0, 0, 0.3, *[0] * 5]
  )
  np.testing.assert_allclose(output.state, expected, atol=1e-15)
  after = apply([1, 6], [0.0, 0.0], output.state)
  assert after.coefficients.sum() == pytest.approx(1)


def test_a_large_population():
  output = apply([99_999, 3], [1.0, 2.0], n=100_000)
  expected = np.full(100_000, 1e-5)
  expected[[99_999, 3]] += [0.1, 0.2]
  np.testing.assert_allclose(
    output.state, reference.project_to_simplex(expected), atol=1e-12
  )
  assert output.state.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("ids", [[0, N], [-1, 3], [2**40, 1], [-(2**63)]])
def test_ids_out_of_range_are_named(ids):
  with pytest.raises(tf.errors.InvalidArgumentError) as caught:
    apply(ids, np.ones(len(ids)))
  message = str(caught.value)
  assert f"num_clients={N}" in message
  assert f"0 to {N - 1}" in message
  assert str(ids[0]) in message
