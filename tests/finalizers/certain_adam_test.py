"""Tests of AdaFedAdam's server step against Algorithm 1 in NumPy."""

import collections
import functools
import math

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.finalizers import rounds
from tff_fair import finalizers


@functools.cache
def process(**settings):
  return finalizers.build_certain_adam(
    finalizers.CertainAdamSettings(**settings), rounds.WEIGHTS_TYPE
  )


class Algorithm1:
  """The paper's server, in float64, with moments written as sums."""

  def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999, epsilon=1e-8):
    self._settings = learning_rate, beta1, beta2, epsilon
    self._past = []

  def step(self, g, certainty):
    """Returns what a round subtracts from the weights."""
    learning_rate, beta1, beta2, epsilon = self._settings
    self._past.append((np.asarray(g, np.float64), float(certainty)))
    m_hat = self._mean(beta1, power=1)
    v_hat = self._mean(beta2, power=2)
    return certainty * learning_rate * m_hat / (np.sqrt(v_hat) + epsilon)

  def _mean(self, beta, power):
    """Returns a mean of past g^power; its weights fall with later certainty."""
    later, total, weight = 0.0, 0.0, 0.0
    for g, certainty in reversed(self._past):
      share = -math.expm1(certainty * math.log(beta)) * beta**later
      total, weight = total + share * g**power, weight + share
      later += certainty
    return total / weight


def test_rounds_with_changing_certainty():
  rng = np.random.default_rng(0)
  server, state = Algorithm1(), process().initialize()
  weights = rounds.weights()
  expected = rounds.flat(weights)
  for certainty in (1.0, 0.3, 2.5, 4.0, 1.0, 0.1, 7.0, 1.0):
    g = rng.normal(size=3)
    output = rounds.run(process(), state, weights, g, certainty=certainty)
    expected = expected - server.step(g.astype(np.float32), certainty)
    np.testing.assert_allclose(rounds.flat(output.result), expected, rtol=1e-6)
    assert output.measurements["update_non_finite"] == 0
    state, weights = output.state, output.result
  assert weights.non_trainable[0] == 5


def relative_errors(certainty, num_rounds, settings):
  """Returns the relative error of each step, compared with `Algorithm1`."""
  rng = np.random.default_rng(1)
  server, state = Algorithm1(**settings), process(**settings).initialize()
  errors = []
  for _ in range(num_rounds):
    g = rng.normal(size=3).astype(np.float32)
    output = rounds.run(
      process(**settings), state, rounds.ZERO, g, certainty=certainty
    )
    step = server.step(g, certainty)
    errors.append(np.max(np.abs(rounds.flat(output.result) + step)))
    errors[-1] /= np.max(np.abs(step))
    state = output.state
  return errors


@pytest.mark.parametrize("certainty", [1e-3, 0.01, 0.1, 1.0, 10.0])
def test_steps_are_accurate_at_any_certainty(certainty):
  # For a small C, beta2^C is close to 1, but 1 - beta2^C must be accurate.
  errors = relative_errors(certainty, 20, {"learning_rate": 0.5})
  assert max(errors) < 2e-6, errors


def test_layers_may_be_of_another_dtype():
  weights = tff.learning.models.ModelWeights(
    (np.array([1.0, 2.0]), np.array([3.0], np.float32)), ()
  )
  weights_type = tff.types.tensorflow_to_type(
    tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), weights)
  )
  mixed = finalizers.build_certain_adam(
    finalizers.CertainAdamSettings(), weights_type
  )
  output = mixed.next(
    mixed.initialize(),
    weights,
    collections.OrderedDict(
      update=(np.array([1e-3, -1.0]), np.array([5.0], np.float32)),
      num_clients=np.int32(1),
      scalars=collections.OrderedDict(certainty=np.float32(1.0)),
    ),
  )
  trained = output.result.trainable
  assert [w.dtype for w in trained] == [np.float64, np.float32]
  np.testing.assert_allclose(trained[0], [0.999, 2.001], rtol=1e-6)


def test_no_client_in_the_first_round_is_no_error():
  # The weight of past rounds, by which moments are divided, is still 0.
  start = process().initialize()
  output = rounds.run(
    process(), start, rounds.weights(), [0, 0, 0], certainty=0, num_clients=0
  )
  rounds.assert_same_state(output.state, start)
  assert output.measurements["update_non_finite"] == 0


def test_hparams_can_be_read_and_set():
  state = process().initialize()
  hparams = process().get_hparams(state)
  assert hparams == pytest.approx(
    {"learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
  )
  hparams["learning_rate"] = np.float32(0.5)
  hparams["beta1"] = np.float32(0.0)
  state = process().set_hparams(state, hparams)
  server = Algorithm1(learning_rate=0.5, beta1=1e-300)
  for g in ([1.0, -2.0, 3.0], [-5.0, 0.1, 2.0]):
    output = rounds.run(process(), state, rounds.ZERO, g, certainty=1.0)
    np.testing.assert_allclose(
      rounds.flat(output.result), -server.step(g, 1.0), rtol=1e-3
    )
    state = output.state
  assert process().get_hparams(state) == pytest.approx(hparams)
