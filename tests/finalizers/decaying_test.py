"""Tests of server steps whose learning rate decays, against NumPy."""

import functools
from typing import Any

import numpy as np
import pytest
import tensorflow_federated as tff

from tests import reference
from tests.finalizers import rounds
from tff_fair import finalizers
from tff_fair.optimizers import learning_rate_decay

RATE = 0.5
FACTORS = {
  "exponential": (0.7, lambda t: 0.7**t),
  "inverse_time": (0.25, lambda t: 1 / (1 + 0.25 * t)),
}
CERTAINTY = {"certain_adam": {"certainty": 1.0}}


def decay_of(kind):
  return learning_rate_decay.build("decay", FACTORS[kind][0], kind)


@functools.cache
def build(step, kind="exponential"):
  optimizers = tff.learning.optimizers
  if step == "certain_adam":
    return finalizers.build_certain_adam(
      finalizers.CertainAdamSettings(learning_rate=RATE, epsilon=1e-7),
      rounds.WEIGHTS_TYPE,
      decay_of(kind),
    )
  optimizer = {
    "sgd": optimizers.build_sgdm(RATE),
    "momentum": optimizers.build_sgdm(RATE, 0.9),
    "adam": optimizers.build_adam(RATE, epsilon=1e-7),
  }[step]
  return finalizers.build_apply_direction(
    optimizer, rounds.WEIGHTS_TYPE, decay_of(kind)
  )


# The server steps in NumPy, at a rate of one.
IN_NUMPY: dict[str, Any] = {
  "sgd": reference.Momentum,
  "momentum": lambda: reference.Momentum(1.0, 0.9),
  "adam": lambda: reference.Adam(1.0),
  "certain_adam": lambda: reference.Adam(1.0),
}


def run(process, step, state, weights, d, **keywords):
  return rounds.run(
    process, state, weights, d, **CERTAINTY.get(step, {}), **keywords
  )


@pytest.mark.parametrize("kind", FACTORS)
@pytest.mark.parametrize("step", IN_NUMPY)
def test_steps_are_those_of_the_decayed_rate(step, kind):
  process, factor = build(step, kind), FACTORS[kind][1]
  rng = np.random.default_rng(0)
  expected, in_numpy = rounds.flat(rounds.weights()), IN_NUMPY[step]()
  state, weights = process.initialize(), rounds.weights()
  for t in range(5):
    d = rng.normal(size=3).astype(np.float32)
    output = run(process, step, state, weights, d)
    expected = expected - RATE * factor(t) * in_numpy.step(d)
    np.testing.assert_allclose(rounds.flat(output.result), expected, atol=1e-4)
    state, weights = output.state, output.result
    assert state["round_num"] == t + 1


@pytest.mark.parametrize("step", ["momentum", "certain_adam"])
@pytest.mark.parametrize(
  ("direction", "num_clients"), [([0, 0, 0], 0), ([1, np.nan, 0], 3)]
)
def test_a_round_without_a_step_does_not_decay(step, direction, num_clients):
  process = build(step)
  start = run(process, step, process.initialize(), rounds.ZERO, [1, 2, 3])
  after = run(
    process,
    step,
    start.state,
    start.result,
    direction,
    num_clients=num_clients,
  )
  rounds.assert_same_state(after.state, start.state)
  assert after.state["round_num"] == 1


@pytest.mark.parametrize("step", ["momentum", "certain_adam"])
def test_the_rate_that_is_set_is_the_one_before_decay(step):
  process = build(step)
  state = process.initialize()
  for _ in range(2):
    state = run(process, step, state, rounds.ZERO, [1, 1, 1]).state
  hparams = process.get_hparams(state)
  assert hparams["learning_rate"] == np.float32(RATE)
  hparams["learning_rate"] = np.float32(4.0)
  other = process.set_hparams(state, hparams)
  assert process.get_hparams(other) == hparams
  assert other["round_num"] == 2
  # After a step from zero, the weights are proportional to the rate.
  here, there = (
    rounds.flat(run(process, step, s, rounds.ZERO, [1, 1, 1]).result)
    for s in (state, other)
  )
  np.testing.assert_allclose(there, here * 4.0 / RATE, rtol=1e-6)
