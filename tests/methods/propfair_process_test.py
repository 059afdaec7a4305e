"""Tests of PropFair's process: the loss that clients minimize."""

import math

import numpy as np
import pytest
import tensorflow as tf

from tests import reference, small_problem
from tests.cases import one_of_each
from tff_fair import algorithms
from tff_fair.methods import propfair

pytestmark = [pytest.mark.tff, pytest.mark.usefixtures("built_once")]

M = 5.0


def value_and_slope(loss, m=M, dtype=tf.float64):
  loss = tf.constant(loss, dtype)
  with tf.GradientTape() as tape:
    tape.watch(loss)
    value = propfair.proportional_loss(loss, m)
  slope = tape.gradient(value, loss)
  assert value.dtype == slope.dtype == dtype
  return value.numpy(), slope.numpy()


def expected(loss, m=M):
  if m - loss >= 0.2:
    return math.log(m / (m - loss)), 1 / (m - loss)
  return loss / m, 1 / m


@pytest.mark.parametrize("m", [0.1, 0.2, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("loss", [-3.0, 0.0, 0.3, 2.5, 4.7, 5.0, 7.0, 1e6])
def test_values_and_gradients(loss, m):
  for actual, wanted in zip(
    value_and_slope(loss, m), expected(loss, m), strict=True
  ):
    assert actual == pytest.approx(wanted, rel=1e-12, abs=1e-15)


def test_at_the_boundary_the_logarithm_is_taken():
  m, at = 0.45, 0.25
  assert m - at == 0.2  # In floats, too.
  value, slope = value_and_slope(at, m)
  assert (value, slope) == pytest.approx((math.log(0.45 / 0.2), 5), rel=1e-12)
  value, slope = value_and_slope(np.nextafter(at, 1), m)
  assert (value, slope) == pytest.approx((0.25 / 0.45, 1 / 0.45), rel=1e-12)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64])
@pytest.mark.parametrize("loss", [4.999999, 5.0, 5.000001, 1e30, 3e38])
def test_no_gradient_explodes_beyond_the_boundary(loss, dtype):
  value, slope = value_and_slope(loss, dtype=dtype)
  assert np.isfinite(value)
  assert slope == pytest.approx(0.2)


def test_tiny_losses_keep_their_gradient():
  for loss in (0.0, 1e-30, 1e-8):
    _, slope = value_and_slope(loss, dtype=tf.float32)
    assert slope == pytest.approx(0.2)


@pytest.mark.parametrize("m", one_of_each([1.5, 0.15, 1.2, 50.0]))
def test_clients_take_steps_along_it(m):
  # For some m, losses of minibatches lie on both sides of the boundary.
  process = algorithms.build_propfair(
    small_problem.functional_model(),
    client_optimizer=small_problem.optimizer(),
    m=m,
    batch_size=4,
  )
  theta, state = reference.initial_theta(), process.initialize()
  branches = set()

  def slope(loss):
    branches.add(m - loss >= 0.2)
    return expected(loss, m)[1]

  for cohort in ((12, 3), (5, 31, 12)):
    clients = [reference.run_client(theta, k, slope=slope) for k in cohort]
    theta = theta - reference.fedavg(clients)
    state, metrics = process.next(state, small_problem.cohort(cohort))
    # The reported loss is the model's, not the one that clients minimize.
    assert metrics["aggregator"]["loss_mean"] == pytest.approx(
      np.mean([c.loss for c in clients]), rel=1e-5
    )
  np.testing.assert_allclose(
    small_problem.flat_weights(state), theta, atol=1e-5
  )
  assert len(branches) == (2 if m in (1.2, 1.5) else 1)
