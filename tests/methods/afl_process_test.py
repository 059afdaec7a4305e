"""Tests of AFL's process: the population and the averaged model."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tests.cases import one_of_each
from tests.finalizers import rounds
from tests.small_problem import flat
from tff_fair import algorithms, finalizers
from tff_fair.methods import afl

pytestmark = [pytest.mark.tff, pytest.mark.usefixtures("built_once")]

COHORTS = ((12, 3), (5,), (8, 31, 12), (3, 5))
POPULATION = 32


@functools.cache
def build(**options):
  options = {"num_clients": POPULATION, "batch_size": 4, **options}
  return algorithms.build_afl(
    small_problem.functional_model(),
    client_optimizer=small_problem.optimizer(),
    **options,
  )


# Options of the server step, which is independent of averaging.
STEPS = {
  "server_optimizer": tff.learning.optimizers.build_sgdm(0.5, 0.9),
  "server_learning_rate_decay": 0.5,
}


@functools.cache
def averaged():
  return build(average_model=True, **STEPS)


def run(process, state, cohort):
  return process.next(state, small_problem.cohort(cohort)).state


def test_the_average_is_the_mean_over_rounds():
  process = build(**STEPS)
  state, plain = averaged().initialize(), process.initialize()
  seen = []
  for cohort in COHORTS:
    state, plain = run(averaged(), state, cohort), run(process, plain, cohort)
    # Training goes on from the current weights, not from their average.
    np.testing.assert_array_equal(
      small_problem.flat_weights(state), small_problem.flat_weights(plain)
    )
    seen.append(small_problem.flat_weights(state))
    average = averaged().get_model_weights(state)
    np.testing.assert_allclose(
      flat(average), np.mean(seen, axis=0), rtol=1e-5, atol=1e-6
    )
  np.testing.assert_array_equal(
    flat(process.get_model_weights(plain)), seen[-1].astype(np.float32)
  )


def test_before_the_first_round_the_average_is_the_start():
  state = averaged().initialize()
  start = flat(small_problem.initial_weights())
  np.testing.assert_array_equal(
    flat(averaged().get_model_weights(state)), start
  )
  no_examples = [small_problem.whole(12).take(0)]
  state = averaged().next(state, no_examples).state
  np.testing.assert_array_equal(
    flat(averaged().get_model_weights(state)), start
  )


def test_a_round_without_clients_does_not_move_the_average():
  state = run(averaged(), averaged().initialize(), (12, 3))
  before = flat(averaged().get_model_weights(state))
  state = averaged().next(state, [small_problem.whole(12).take(0)]).state
  np.testing.assert_array_equal(
    flat(averaged().get_model_weights(state)), before
  )


def test_weights_that_are_set_start_a_new_average():
  process = averaged()
  state = run(process, process.initialize(), (12, 3))
  weights = process.get_model_weights(state)
  doubled = tff.learning.models.ModelWeights(
    tuple(2 * w for w in weights.trainable), weights.non_trainable
  )
  other = process.set_model_weights(state, doubled)
  for found in (process.get_model_weights(other), other.global_model_weights):
    np.testing.assert_array_equal(flat(found), flat(doubled))
  # The aggregator's state, which depends on the losses, stays.
  tf.nest.map_structure(
    np.testing.assert_array_equal, other.aggregator, state.aggregator
  )
  other = run(process, other, (5,))
  np.testing.assert_allclose(
    flat(process.get_model_weights(other)),
    small_problem.flat_weights(other),
    rtol=1e-6,
  )


@pytest.mark.parametrize("aggregation", one_of_each(["two_phase", "stacked"]))
def test_a_client_out_of_range_is_named(aggregation):
  is_default = aggregation == "two_phase"
  process = averaged() if is_default else build(aggregation=aggregation)
  start, beyond = process.initialize(), 2**40 + 1
  named = rf"num_clients={POPULATION}.* {beyond}\b"
  with pytest.raises(Exception, match=named):
    run(process, start, (3, beyond))
  # The next round works as if nothing had happened.
  run(process, start, (3, 8))


@functools.cache
def averaging():
  """Returns a finalizer that averages the weights of steps with momentum."""
  step = finalizers.build_apply_direction(
    tff.learning.optimizers.build_sgdm(0.5, 0.9), rounds.WEIGHTS_TYPE
  )
  return afl.build_averaging(step)


def average_of(state):
  return rounds.flat(state["average"]["weights"])


def test_weights_that_are_not_trained_are_in_the_average():
  state = averaging().initialize()
  for count in (5, 7):
    state = rounds.run(
      averaging(), state, rounds.weights(count=count), [1, 2, 3]
    ).state
  assert state["average"]["weights"].non_trainable[0] in (5, 6, 7)


def test_a_direction_that_is_not_finite_leaves_a_finite_average():
  state, weights = averaging().initialize(), rounds.weights()
  for d in ([1, 2, 3], [np.nan, 0, 0], [1, np.inf, 0]):
    output = rounds.run(averaging(), state, weights, d)
    state, weights = output.state, output.result
  np.testing.assert_allclose(average_of(state), rounds.flat(weights), rtol=1e-6)


def test_the_average_of_many_rounds_loses_no_digits():
  # In a running sum, small steps would lose their digits.
  state, weights = averaging().initialize(), rounds.weights((1e3, -1e3, 0.1))
  for _ in range(100):
    state = rounds.run(averaging(), state, weights, [0, 0, 0]).state
  np.testing.assert_allclose(average_of(state), rounds.flat(weights), rtol=1e-6)
