"""Tests of the code that all finalizers share, with a server step for tests."""

import collections
import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.finalizers import rounds
from tff_fair.finalizers import server_steps


@functools.cache
def counting():
  """Returns a finalizer that steps by rate * factor, and counts its steps."""

  def initialize():
    return collections.OrderedDict(
      rate=tf.constant(0.5), steps=tf.constant(0, tf.int64)
    )

  def step(state, trainable, round_update):
    factor = state["rate"] * round_update.scalars["factor"]
    new_state = collections.OrderedDict(
      rate=state["rate"], steps=state["steps"] + 1
    )
    return new_state, tf.nest.map_structure(
      lambda w, d: w - factor * d, trainable, round_update.update
    )

  return server_steps.build_finalizer(
    rounds.WEIGHTS_TYPE,
    server_steps.ServerStep(
      initialize,
      step,
      get_hparams=lambda state: collections.OrderedDict(rate=state["rate"]),
      set_hparams=lambda state, hparams: collections.OrderedDict(
        rate=hparams["rate"], steps=state["steps"]
      ),
    ),
    scalars=collections.OrderedDict(factor=np.float32),
  )


def test_types():
  state_type, weights_type, round_type = (
    counting().next.type_signature.parameter
  )
  result = counting().next.type_signature.result
  assert result.state == state_type
  assert result.result == weights_type
  assert result.result.member == rounds.WEIGHTS_TYPE
  assert round_type.member["update"] == rounds.WEIGHTS_TYPE.trainable
  assert round_type.member["num_clients"] == tff.TensorType(np.int32)


def test_a_step_is_taken():
  output = rounds.run(
    counting(), counting().initialize(), rounds.weights(), [1, 2, 4], factor=3.0
  )
  np.testing.assert_allclose(
    rounds.flat(output.result), [1 - 1.5, 2 - 3, -3 - 6]
  )
  assert output.state["steps"] == 1
  assert output.result.non_trainable[0] == 5
  assert output.measurements == {"update_non_finite": 0}


@pytest.mark.parametrize(
  ("direction", "factor", "num_clients", "reported"),
  [
    ([1, 2, 4], 1.0, 0, 0),
    ([0, 0, 0], 0.0, 0, 0),
    ([np.nan, 2, 4], 1.0, 3, 1),
    ([1, 2, np.inf], 1.0, 3, 1),
    # The direction is finite, but the step along it is not.
    ([1, 3e38, 4], 100.0, 3, 1),
    ([1, 2, 4], np.nan, 3, 1),
    ([np.nan, 2, 4], 1.0, 0, 1),
  ],
)
def test_a_step_that_cannot_be_taken_changes_nothing(
  direction, factor, num_clients, reported
):
  start = counting().initialize()
  output = rounds.run(
    counting(),
    start,
    rounds.weights(),
    direction,
    factor=factor,
    num_clients=num_clients,
  )
  rounds.assert_same_state(output.state, start)
  rounds.assert_same_state(output.result, rounds.weights())
  assert output.measurements["update_non_finite"] == reported
