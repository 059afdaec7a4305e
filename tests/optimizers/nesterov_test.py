"""Tests of SGD with Nesterov's momentum."""

import numpy as np
import pytest
import tensorflow as tf

from tests import reference, small_problem
from tff_fair import algorithms, optimizers


def test_agrees_with_keras():
  rng = np.random.default_rng(0)
  weights = [rng.normal(size=s).astype(np.float32) for s in ((3, 2), (2,))]
  variables = [tf.Variable(w) for w in weights]
  keras = tf.keras.optimizers.SGD(0.1, momentum=0.8, nesterov=True)
  optimizer = optimizers.build_nesterov(0.1, 0.8)
  state = optimizer.initialize(
    [tf.TensorSpec(w.shape, w.dtype) for w in weights]
  )
  ours = [tf.constant(w) for w in weights]
  for _ in range(5):
    gradients = [
      tf.constant(rng.normal(size=w.shape).astype(np.float32)) for w in weights
    ]
    keras.apply_gradients(zip(gradients, variables, strict=True))
    state, ours = optimizer.next(state, ours, gradients)
  for a, b in zip(ours, variables, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_weights_without_gradient_stay():
  optimizer = optimizers.build_nesterov(0.1)
  weights = (tf.ones([2]), tf.ones([3]))
  state = optimizer.initialize(
    tuple(tf.TensorSpec(w.shape, w.dtype) for w in weights)
  )
  _, stepped = optimizer.next(state, weights, (tf.ones([2]), None))
  np.testing.assert_allclose(stepped[0], 1 - 0.1 * 1.9 * np.ones(2), rtol=1e-6)
  np.testing.assert_array_equal(stepped[1], np.ones(3))


def test_trains_clients_and_its_rate_can_be_set():
  process = algorithms.build(
    "fedavg",
    small_problem.functional_model(),
    client_optimizer=optimizers.build_nesterov(0.05, 0.9),
    batch_size=small_problem.BATCH_SIZE,
  )
  state = process.initialize()
  hparams = process.get_hparams(state)
  hparams["client_work"]["learning_rate"] = np.float32(0.1)
  state = process.set_hparams(state, hparams)
  state, _ = process.next(state, [small_problem.whole(12)])

  theta = reference.initial_theta()
  x, y = small_problem.client_arrays()[12]
  w, v = theta.copy(), np.zeros_like(theta)
  for start in range(0, len(y), small_problem.BATCH_SIZE):
    batch = slice(start, start + small_problem.BATCH_SIZE)
    _, g = reference.loss_and_gradient(w, x[batch], y[batch])
    v = 0.9 * v + g
    w = w - 0.1 * (g + 0.9 * v)
  np.testing.assert_allclose(small_problem.flat_weights(state), w, atol=1e-6)


@pytest.mark.parametrize(
  ("arguments", "name"),
  [((-1.0,), "learning_rate"), ((0.1, 1.0), "momentum")],
)
def test_arguments_out_of_range_are_refused(arguments, name):
  with pytest.raises(ValueError, match=name):
    optimizers.build_nesterov(*arguments)
