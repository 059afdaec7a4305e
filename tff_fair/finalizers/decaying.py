"""Lets the learning rate of a server step decay.

The state has the step's own below `step`, with the hyperparameters as they are
before any decay, and beside it t, the number of steps so far.
"""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tff_fair.learning_rate_decay import LearningRateDecay


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
  step: Callable[[Any, Any, Any], tuple[Any, Any]]
  get_hparams: Callable[[Any], Any]
  set_hparams: Callable[[Any, Any], Any]


def with_decay(inner: ServerStep, decay: LearningRateDecay) -> ServerStep:
  """Returns a server step as another one, but with a rate that decays.

  Args:
    inner: Has the hyperparameter `learning_rate`.
    decay: How it decays.
  """

  def state_of(step: Any, round_num: Any) -> Any:
    return collections.OrderedDict(step=step, round_num=round_num)

  def initialize() -> Any:
    return state_of(inner.initialize(), tf.constant(0, tf.int64))

  def step(state: Any, trainable: Any, round_update: Any) -> Any:
    hparams = inner.get_hparams(state["step"])
    decayed = decay.apply(hparams, state["round_num"])
    new_state, new_trainable = inner.step(
      inner.set_hparams(state["step"], decayed), trainable, round_update
    )
    new_state = inner.set_hparams(new_state, hparams)
    return state_of(new_state, state["round_num"] + 1), new_trainable

  def get_hparams(state: Any) -> Any:
    return inner.get_hparams(state["step"])

  def set_hparams(state: Any, hparams: Any) -> Any:
    return state_of(
      inner.set_hparams(state["step"], hparams), state["round_num"]
    )

  return ServerStep(initialize, step, get_hparams, set_hparams)
