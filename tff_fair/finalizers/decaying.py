"""Lets the learning rate of a server step decay.

The state has the step's own below `step`, with the hyperparameters as they are
before any decay, and beside it t, the number of steps so far.
"""

import collections
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypedDict

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.optimizers.learning_rate_decay import Hparams, LearningRateDecay
from tff_fair.types import TensorStructure

# `step`, the state of the step itself, and `round_num`, int64[].
_State: TypeAlias = collections.OrderedDict[str, Any]


class RoundUpdate(TypedDict):
  """The result of a round, as a server step takes it.

  Attributes:
    update: The direction, a structure like the trainable weights.
    num_clients: int32[], the clients that counted.
    scalars: The scalars that the rule sends beside it, by name.
  """

  update: TensorStructure
  num_clients: tf.Tensor
  scalars: Mapping[str, tf.Tensor]


class ServerStep(NamedTuple):
  """The TensorFlow functions that make up a server step.

  Attributes:
    initialize: Returns the state before the first round, S.
    step: From state, trainable weights and round update to the new state and
      weights.
    get_hparams: From state to hyperparameters, H.
    set_hparams: From state and hyperparameters to state.
  """

  initialize: Callable[[], Any]
  step: Callable[
    [Any, TensorStructure, RoundUpdate], tuple[Any, TensorStructure]
  ]
  get_hparams: Callable[[Any], Hparams]
  set_hparams: Callable[[Any, Hparams], Any]


def with_decay(inner: ServerStep, decay: LearningRateDecay) -> ServerStep:
  """Returns a server step as another one, but with a rate that decays.

  Args:
    inner: Has the hyperparameter `learning_rate`.
    decay: How it decays.
  """

  def state_of(step: Any, round_num: tf.Tensor) -> _State:
    return collections.OrderedDict(step=step, round_num=round_num)

  def initialize() -> _State:
    return state_of(inner.initialize(), tf.constant(0, tf.int64))

  def step(
    state: _State, trainable: TensorStructure, round_update: RoundUpdate
  ) -> tuple[_State, TensorStructure]:
    hparams = inner.get_hparams(state["step"])
    decayed = decay.apply(hparams, state["round_num"])
    new_state, new_trainable = inner.step(
      inner.set_hparams(state["step"], decayed), trainable, round_update
    )
    new_state = inner.set_hparams(new_state, hparams)
    return state_of(new_state, state["round_num"] + 1), new_trainable

  def get_hparams(state: _State) -> Hparams:
    return inner.get_hparams(state["step"])

  def set_hparams(state: _State, hparams: Hparams) -> _State:
    return state_of(
      inner.set_hparams(state["step"], hparams), state["round_num"]
    )

  return ServerStep(initialize, step, get_hparams, set_hparams)


def build_learning_rate(
  finalizer: tff.learning.templates.FinalizerProcess,
  decay: LearningRateDecay | None,
) -> tff.Computation:
  """Builds a computation from a finalizer's state to the rate of its next step.

  Args:
    finalizer: Has the hyperparameter `learning_rate`.
    decay: What it was built with.

  Returns:
    A `tff.Computation` of the type (S -> float32).
  """

  @tff.tensorflow.computation(finalizer.initialize.type_signature.result.member)
  def learning_rate(state: Any) -> tf.Tensor:
    hparams = finalizer.get_hparams(state)
    if decay is not None:
      hparams = decay.apply(hparams, state["round_num"])
    rate = hparams[tff.learning.optimizers.LEARNING_RATE_KEY]
    return tf.cast(rate, tf.float32)

  return learning_rate
