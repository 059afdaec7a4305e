"""Tests of the running mean of the weights."""

import functools

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.finalizers import rounds
from tff_fair import finalizers


@functools.cache
def inner():
  """Momentum: a step that has a state and hyperparameters."""
  return finalizers.build_apply_direction(
    tff.learning.optimizers.build_sgdm(0.5, 0.9), rounds.WEIGHTS_TYPE
  )


@functools.cache
def process():
  return finalizers.build_averaging(inner())


def average(state):
  return rounds.flat(state["average"]["weights"])


def test_types_are_those_of_the_step_but_for_the_state():
  ours, other = (p.next.type_signature for p in (process(), inner()))
  assert ours.parameter[1:] == other.parameter[1:]
  assert ours.result.result == other.result.result
  assert ours.result.measurements == other.result.measurements


def test_average_is_the_mean_of_the_weights_of_all_rounds():
  rng = np.random.default_rng(0)
  state, weights = process().initialize(), rounds.weights()
  step_state, step_weights = inner().initialize(), rounds.weights()
  seen = []
  for round_num in range(1, 31):
    d = rng.normal(size=3)
    output = rounds.run(process(), state, weights, d)
    step = rounds.run(inner(), step_state, step_weights, d)
    # Training goes on from the current weights, not from their mean.
    rounds.assert_same_state(output.result, step.result)
    rounds.assert_same_state(output.state["step"], step.state)
    seen.append(rounds.flat(output.result))
    np.testing.assert_allclose(
      average(output.state), np.mean(seen, axis=0), rtol=1e-5, atol=1e-6
    )
    assert output.state["average"]["num_rounds"] == round_num
    state, weights = output.state, output.result
    step_state, step_weights = step.state, step.result


def test_weights_that_are_not_trained_are_there_too():
  state = process().initialize()
  for count in (5, 7):
    state = rounds.run(
      process(), state, rounds.weights(count=count), [1, 2, 3]
    ).state
  assert state["average"]["weights"].non_trainable[0] in (5, 6, 7)


def test_the_first_average_is_the_first_result():
  output = rounds.run(
    process(), process().initialize(), rounds.weights(), [1, 2, 3]
  )
  np.testing.assert_array_equal(
    average(output.state), rounds.flat(output.result)
  )


@pytest.mark.parametrize("rounds_before", [0, 2])
def test_a_round_without_clients_does_not_count(rounds_before):
  state, weights = process().initialize(), rounds.weights()
  for _ in range(rounds_before):
    output = rounds.run(process(), state, weights, [1, 2, 3])
    state, weights = output.state, output.result
  output = rounds.run(process(), state, weights, [0, 0, 0], num_clients=0)
  rounds.assert_same_state(output.state, state)
  rounds.assert_same_state(output.result, weights)


def test_a_direction_that_is_not_finite_leaves_a_finite_average():
  state, weights = process().initialize(), rounds.weights()
  for d in ([1, 2, 3], [np.nan, 0, 0], [1, np.inf, 0]):
    output = rounds.run(process(), state, weights, d)
    state, weights = output.state, output.result
  np.testing.assert_allclose(average(state), rounds.flat(weights), rtol=1e-6)


def test_many_rounds_lose_no_digits():
  # A sum would: its steps vanish beside it.
  state, weights = process().initialize(), rounds.weights((1e3, -1e3, 0.1))
  for _ in range(100):
    state = rounds.run(process(), state, weights, [0, 0, 0]).state
  np.testing.assert_allclose(average(state), rounds.flat(weights), rtol=1e-6)
