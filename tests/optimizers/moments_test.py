"""Tests of AMSGrad, and of SGD with Nesterov's momentum."""

import numpy as np
import pytest
import tensorflow as tf

from tests import reference, small_problem
from tff_fair import optimizers

RATE, BETA_1, BETA_2, EPSILON = 0.1, 0.8, 0.9, 1e-7
KERAS = tf.keras.optimizers
# Maps a name to our optimizer and a function that returns Keras's.
OPTIMIZERS = {
  "amsgrad": (
    optimizers.build_amsgrad(RATE, BETA_1, BETA_2, EPSILON),
    lambda: KERAS.Adam(RATE, BETA_1, BETA_2, EPSILON, amsgrad=True),
  ),
  "nesterov": (
    optimizers.build_nesterov(RATE, 0.8),
    lambda: KERAS.SGD(RATE, momentum=0.8, nesterov=True),
  ),
}
each_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)


def start(optimizer, weights):
  return optimizer.initialize(
    [tf.TensorSpec(w.shape, w.dtype) for w in weights]
  )


def drawn(shape, *key):
  # Gradients shrink, so that the second moment falls below its maximum.
  rng = np.random.default_rng(key)
  return [rng.normal(size=shape) * 0.5**n for n in range(6)]


@each_optimizer
def test_agrees_with_keras(name):
  optimizer, build_keras = OPTIMIZERS[name]
  keras, ours = build_keras(), [tf.ones([3, 2]), tf.zeros([2])]
  variables = [tf.Variable(w) for w in ours]
  state = start(optimizer, ours)
  for drawn_at_once in zip(drawn([3, 2], 0), drawn([2], 1), strict=True):
    gradients = [tf.constant(g, tf.float32) for g in drawn_at_once]
    keras.apply_gradients(zip(gradients, variables, strict=True))
    state, ours = optimizer.next(state, ours, gradients)
    for a, b in zip(ours, variables, strict=True):
      np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
  if name == "amsgrad":  # AMSGrad differs from Adam here.
    largest, second = state["largest_second_moment"], state["second_moment"]
    assert np.all(largest[0] >= second[0])
    assert np.any(largest[0] > second[0])


def test_a_state_goes_on_bit_for_bit():
  gradients = [[tf.constant(g, tf.float32)] for g in drawn(3, 2)]
  optimizer = optimizers.build_amsgrad(RATE)
  weights = [tf.zeros([3])]
  state = start(optimizer, weights)
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


@pytest.mark.parametrize(
  ("name", "moved", "moment"),
  [("amsgrad", RATE, "first_moment"), ("nesterov", 1.8 * RATE, "velocity")],
)
def test_weights_without_gradient_stay(name, moved, moment):
  optimizer, _ = OPTIMIZERS[name]
  weights = [tf.ones([2]), tf.ones([3])]
  state, stepped = optimizer.next(
    start(optimizer, weights), weights, [tf.ones([2]), None]
  )
  np.testing.assert_allclose(stepped[0], (1 - moved) * np.ones(2), rtol=1e-5)
  np.testing.assert_array_equal(stepped[1], np.ones(3))
  np.testing.assert_array_equal(state[moment][1], np.zeros(3))


def round_at(part, **trained_by):
  """Returns the weights after a round in which `part` has the rate `RATE`."""
  process = small_problem.process("fedavg", **trained_by)
  state = process.initialize()
  hparams = process.get_hparams(state)
  hparams[part]["learning_rate"] = np.float32(RATE)
  state = process.set_hparams(state, hparams)
  state, _ = process.next(state, [small_problem.whole(12)])
  return small_problem.flat_weights(state)


def test_amsgrad_steps_at_the_server_and_its_rate_can_be_set():
  found = round_at(
    "finalizer",
    client_optimizer=optimizers.build_amsgrad(0.05),
    server_optimizer=optimizers.build_amsgrad(0.5, BETA_1, BETA_2, EPSILON),
  )
  # Since the bias is corrected, the first step is the rate times each sign.
  way = found - reference.initial_theta()
  np.testing.assert_allclose(np.abs(way), RATE, rtol=1e-2)


def test_nesterov_trains_clients_and_its_rate_can_be_set():
  found = round_at(
    "client_work", client_optimizer=optimizers.build_nesterov(0.05, 0.9)
  )
  theta = reference.initial_theta()
  x, y = small_problem.client_arrays()[12]
  w, v = theta.copy(), np.zeros_like(theta)
  for start_of_batch in range(0, len(y), small_problem.BATCH_SIZE):
    batch = slice(start_of_batch, start_of_batch + small_problem.BATCH_SIZE)
    _, g = reference.loss_and_gradient(w, x[batch], y[batch])
    v = 0.9 * v + g
    w = w - RATE * (g + 0.9 * v)
  np.testing.assert_allclose(found, w, atol=1e-6)


@pytest.mark.parametrize(
  ("build", "arguments", "name"),
  [
    (optimizers.build_nesterov, (-1.0,), "learning_rate"),
    (optimizers.build_nesterov, (0.1, 1.0), "momentum"),
    (optimizers.build_amsgrad, (-1.0,), "learning_rate"),
    (optimizers.build_amsgrad, (0.1, 1.0), "beta_1"),
    (optimizers.build_amsgrad, (0.1, 0.9, -0.1), "beta_2"),
    (optimizers.build_amsgrad, (0.1, 0.9, 0.9, -1.0), "epsilon"),
  ],
)
def test_arguments_out_of_range_are_refused(build, arguments, name):
  with pytest.raises(ValueError, match=name):
    build(*arguments)
