"""Tests of AMSGrad."""

import numpy as np
import pytest
import tensorflow as tf

from tests import reference, small_problem
from tff_fair import algorithms, optimizers

RATE, BETA_1, BETA_2, EPSILON = 0.1, 0.8, 0.9, 1e-7


def specs(weights):
  return [tf.TensorSpec(w.shape, w.dtype) for w in weights]


def steps(gradients):
  """Yields the weights of AMSGrad from 0, in float64."""
  w, m, v, v_max = (np.zeros_like(gradients[0]) for _ in range(4))
  for t, g in enumerate(gradients, start=1):
    m = BETA_1 * m + (1 - BETA_1) * g
    v = BETA_2 * v + (1 - BETA_2) * g**2
    v_max = np.maximum(v_max, v)
    rate = RATE * np.sqrt(1 - BETA_2**t) / (1 - BETA_1**t)
    w = w - rate * m / (np.sqrt(v_max) + EPSILON)
    yield w


def drawn(shape, *key):
  # The second moment falls: later gradients are small.
  rng = np.random.default_rng(key)
  return [rng.normal(size=shape) * 0.5**n for n in range(6)]


def test_agrees_with_numpy_and_keras():
  gradients = drawn(7, 1)
  optimizer = optimizers.build_amsgrad(RATE, BETA_1, BETA_2, EPSILON)
  ours = [tf.zeros([7])]
  state = optimizer.initialize(specs(ours))
  variable = tf.Variable(tf.zeros([7]))
  keras = tf.keras.optimizers.Adam(RATE, BETA_1, BETA_2, EPSILON, amsgrad=True)
  for gradient, expected in zip(gradients, steps(gradients), strict=True):
    g = tf.constant(gradient, tf.float32)
    state, ours = optimizer.next(state, ours, [g])
    np.testing.assert_allclose(ours[0], expected, rtol=1e-5, atol=1e-6)
    keras.apply_gradients([(g, variable)])
    np.testing.assert_allclose(ours[0], variable, rtol=1e-5, atol=1e-6)
  second, largest = state["second_moment"][0], state["largest_second_moment"][0]
  assert np.all(largest >= second)
  assert np.any(largest > second)


def test_a_state_goes_on_bit_for_bit():
  gradients = [[tf.constant(g, tf.float32)] for g in drawn(3, 2)]
  optimizer = optimizers.build_amsgrad(RATE)
  weights = [tf.zeros([3])]
  state = optimizer.initialize(specs(weights))
  for g in gradients[:3]:
    state, weights = optimizer.next(state, weights, g)
  saved = tf.nest.map_structure(lambda value: value.numpy(), (state, weights))
  again = optimizers.build_amsgrad(RATE)
  resumed = tf.nest.map_structure(tf.constant, saved)
  for g in gradients[3:]:
    state, weights = optimizer.next(state, weights, g)
    resumed = again.next(*resumed, g)
  tf.nest.map_structure(
    np.testing.assert_array_equal, (state, weights), resumed
  )


def test_weights_without_gradient_stay():
  optimizer = optimizers.build_amsgrad(RATE)
  weights = [tf.ones([2]), tf.ones([3])]
  state, stepped = optimizer.next(
    optimizer.initialize(specs(weights)), weights, [tf.ones([2]), None]
  )
  np.testing.assert_allclose(stepped[0], 1 - RATE * np.ones(2), rtol=1e-5)
  np.testing.assert_array_equal(stepped[1], np.ones(3))
  np.testing.assert_array_equal(state["first_moment"][1], np.zeros(3))


def test_it_steps_at_the_server_and_its_rate_can_be_set():
  process = algorithms.build(
    "fedavg",
    small_problem.functional_model(),
    client_optimizer=optimizers.build_amsgrad(0.05),
    server_optimizer=optimizers.build_amsgrad(0.5, BETA_1, BETA_2, EPSILON),
    batch_size=small_problem.BATCH_SIZE,
  )
  state = process.initialize()
  hparams = process.get_hparams(state)
  hparams["finalizer"]["learning_rate"] = np.float32(RATE)
  state = process.set_hparams(state, hparams)
  state, _ = process.next(state, [small_problem.whole(12)])
  # The first step is the sign of each entry, with the bias corrected.
  way = small_problem.flat_weights(state) - reference.initial_theta()
  np.testing.assert_allclose(np.abs(way), RATE, rtol=1e-2)


@pytest.mark.parametrize(
  ("arguments", "name"),
  [
    ((-1.0,), "learning_rate"),
    ((0.1, 1.0), "beta_1"),
    ((0.1, 0.9, -0.1), "beta_2"),
    ((0.1, 0.9, 0.9, -1.0), "epsilon"),
  ],
)
def test_arguments_out_of_range_are_refused(arguments, name):
  with pytest.raises(ValueError, match=name):
    optimizers.build_amsgrad(*arguments)
