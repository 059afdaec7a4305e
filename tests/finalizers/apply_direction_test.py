"""Tests of the server step, which changes nothing if it cannot be taken."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.finalizers import rounds
from tff_fair import finalizers

WEIGHTS = rounds.weights((1.0, -2.0, 0.5))
DIRECTION = (3.0, -4.0, 2.0)
OPTIMIZERS = {
  "sgd": tff.learning.optimizers.build_sgdm(0.5),
  "momentum": tff.learning.optimizers.build_sgdm(0.5, momentum=0.9),
  "adam": tff.learning.optimizers.build_adam(0.5),
  "yogi": tff.learning.optimizers.build_yogi(0.5),
  "adagrad": tff.learning.optimizers.build_adagrad(0.5),
}
each_optimizer = pytest.mark.parametrize("optimizer", OPTIMIZERS)


@functools.cache
def build(optimizer):
  return finalizers.build_apply_direction(
    OPTIMIZERS[optimizer], rounds.WEIGHTS_TYPE
  )


def step(process, state, direction=DIRECTION, weights=WEIGHTS):
  return rounds.run(process, state, weights, direction)


@each_optimizer
def test_steps_are_those_of_the_optimizer(optimizer):
  process = build(optimizer)
  state, weights = process.initialize(), WEIGHTS
  own = OPTIMIZERS[optimizer]
  own_weights = tf.nest.map_structure(tf.constant, WEIGHTS.trainable)
  gradients = tf.nest.map_structure(tf.constant, rounds.trainable(DIRECTION))
  own_state = own.initialize(
    tf.nest.map_structure(tf.type_spec_from_value, own_weights)
  )
  for _ in range(3):
    output = step(process, state, weights=weights)
    state, weights = output.state, output.result
    own_state, own_weights = own.next(own_state, own_weights, gradients)
    np.testing.assert_allclose(
      rounds.flat(weights), rounds.flat(own_weights), rtol=1e-5
    )
    assert output.measurements["update_non_finite"] == 0
  assert weights.non_trainable == WEIGHTS.non_trainable


@pytest.mark.parametrize("optimizer", ["adam", "yogi", "adagrad"])
def test_a_state_that_would_not_be_finite_changes_nothing(optimizer):
  # The direction is finite, its square is not: with an infinite second moment
  # the weights would never move again.
  process = build(optimizer)
  state = step(process, process.initialize()).state
  output = step(process, state, [1e25, 0.0, 0.0])
  rounds.assert_same_state(output.state, state)
  rounds.assert_same_state(output.result, WEIGHTS)
  assert output.measurements["update_non_finite"] == 1


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_a_zero_direction_of_some_clients_is_a_step(optimizer):
  # In a step with direction zero, the momentum still moves the weights.
  process = build(optimizer)
  state = step(process, process.initialize()).state
  output = step(process, state, [0.0, 0.0, 0.0])
  assert np.all(rounds.flat(output.result) != rounds.flat(WEIGHTS))


@each_optimizer
def test_hyperparameters_are_read_and_set(optimizer):
  process = build(optimizer)
  state = step(process, process.initialize()).state
  hparams = process.get_hparams(state)
  assert hparams["learning_rate"] == 0.5
  hparams["learning_rate"] = np.float32(0.0)
  changed = process.set_hparams(state, hparams)
  assert process.get_hparams(changed) == hparams
  # Everything except the hyperparameters is kept.
  back = process.set_hparams(
    changed, collections.OrderedDict(hparams, learning_rate=np.float32(0.5))
  )
  rounds.assert_same_state(back, state)
  output = step(process, changed)
  rounds.assert_same_state(output.result, WEIGHTS)
