"""The state of the training at the server, and the computations on it."""

import collections
from typing import NamedTuple, TypedDict

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works.training_settings import (
  TrainingSettings,
  seed_in_64_bits,
)
from tff_fair.optimizers.learning_rate_decay import Hparams
from tff_fair.types import TensorStructure


class RoundState(TypedDict):
  """The state of the training at the server.

  Attributes:
    optimizer: The hyperparameters of the client optimizer.
    round_num: int64[], the number of rounds in which any client counted.
    shuffle_seed: int64[], the settings' seed; 0 where they have none. As a part
      of the state, it is no part of the compiled round.
  """

  optimizer: Hparams
  round_num: tf.Tensor
  shuffle_seed: tf.Tensor


class StateComputations(NamedTuple):
  """The computations on the state at the server.

  Attributes:
    initial: Returns the state before the first round, S.
    next: From state and the number of clients that counted to state.
    get_hparams: From state to the optimizer's hyperparameters, H.
    set_hparams: From state and hyperparameters to state.
  """

  initial: tff.Computation
  next: tff.Computation
  get_hparams: tff.Computation
  set_hparams: tff.Computation

  @property
  def type(self) -> tff.Type:
    """The type of the state, S."""
    return self.initial.type_signature.result


def build_state(
  optimizer: tff.learning.optimizers.Optimizer, settings: TrainingSettings
) -> StateComputations:
  """Builds the computations on the state of the training.

  Args:
    optimizer: The client optimizer, whose hyperparameters the state has.
    settings: How clients train.

  Raises:
    TypeError: If it is no optimizer of TFF.
  """
  if not isinstance(optimizer, tff.learning.optimizers.Optimizer):
    raise TypeError(
      "Expected `client_optimizer` to be a tff.learning.optimizers.Optimizer, "
      f"found {type(optimizer).__name__}. Build one with "
      "tff.learning.optimizers.build_sgdm(learning_rate)."
    )

  @tff.tensorflow.computation
  def initial_state() -> TensorStructure:
    specs = tf.TensorSpec([], tf.float32)
    return collections.OrderedDict(
      optimizer=optimizer.get_hparams(optimizer.initialize(specs)),
      round_num=tf.constant(0, tf.int64),
      shuffle_seed=tf.constant(
        seed_in_64_bits(settings.shuffle_seed), tf.int64
      ),
    )

  state_type = initial_state.type_signature.result

  @tff.tensorflow.computation(state_type, np.int32)
  def next_state(state: RoundState, num_counted: tf.Tensor) -> TensorStructure:
    counted = tf.cast(num_counted > 0, tf.int64)
    return collections.OrderedDict(
      state, round_num=state["round_num"] + counted
    )

  @tff.tensorflow.computation(state_type)
  def get_hparams(state: RoundState) -> Hparams:
    return state["optimizer"]

  @tff.tensorflow.computation(state_type, state_type["optimizer"])
  def set_hparams(state: RoundState, hparams: Hparams) -> TensorStructure:
    return collections.OrderedDict(state, optimizer=hparams)

  return StateComputations(initial_state, next_state, get_hparams, set_hparams)
