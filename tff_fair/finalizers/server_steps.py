"""Builds finalizers from server steps, such as the step of an optimizer.

If all clients are excluded, or if the direction, the new weights or the new
state are not finite, a finalizer takes no step: weights and state, including
momentum, do not change. `build_apply_direction` applies any TFF optimizer to
the direction d; with plain SGD this is theta <- theta - eta_s d.

If the learning rate decays, the state consists of `step`, the state of the
server step with the hyperparameters before any decay, and `round_num`, the
number t of steps taken.
"""

import collections
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.kernels import norms
from tff_fair.optimizers.learning_rate_decay import Hparams, LearningRateDecay
from tff_fair.types import RoundUpdate, TensorStructure

# The state of a step with decay: `step`, the state of the inner step, and
# `round_num`, int64[].
_State: TypeAlias = collections.OrderedDict[str, Any]


class ServerStep(NamedTuple):
  """The TensorFlow functions that make up a server step."""

  initialize: Callable[[], Any]  # Returns the state before the first round, S.
  # Maps state, trainable weights and round update to new state and weights.
  step: Callable[
    [Any, TensorStructure, RoundUpdate], tuple[Any, TensorStructure]
  ]
  get_hparams: Callable[[Any], Hparams]  # Maps state to hyperparameters.
  # Maps state and hyperparameters to the new state.
  set_hparams: Callable[[Any, Hparams], Any]


def with_decay(inner: ServerStep, decay: LearningRateDecay) -> ServerStep:
  """Returns a server step whose `learning_rate` decays."""

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
  """Builds a computation of the next learning rate from a finalizer's state.

  Args:
    finalizer: A finalizer with the hyperparameter `learning_rate`.
    decay: The decay with which the finalizer was built.

  Returns:
    A `tff.Computation` of the type (S -> float32), S being the state's type.
  """

  @tff.tensorflow.computation(finalizer.initialize.type_signature.result.member)
  def learning_rate(state: Any) -> tf.Tensor:
    hparams = finalizer.get_hparams(state)
    if decay is not None:
      hparams = decay.apply(hparams, state["round_num"])
    rate = hparams[tff.learning.optimizers.LEARNING_RATE_KEY]
    return tf.cast(rate, tf.float32)

  return learning_rate


def build_finalizer(
  weights_type: tff.Type,
  server_step: ServerStep,
  *,
  scalars: Mapping[str, type[np.generic]],
  decay: LearningRateDecay | None = None,
) -> tff.learning.templates.FinalizerProcess:
  """Builds a finalizer from `server_step`.

  With state S and model weights W, its `next` has the type (<S@SERVER,
  W@SERVER, <update=W.trainable, num_clients=int32, scalars=...>@SERVER> ->
  <state=S@SERVER, result=W@SERVER,
  measurements=<update_non_finite=int32>@SERVER>). `scalars` are the types of
  the scalars that the rule sends with the direction.
  """
  if decay is not None:
    server_step = with_decay(server_step, decay)
  initial_state = tff.tensorflow.computation(server_step.initialize)
  state_type = initial_state.type_signature.result
  guarded_step = _build_guarded_step(
    server_step, state_type, weights_type.trainable, scalars
  )
  round_type = guarded_step.type_signature.parameter[2]

  get_hparams_fn = tff.tensorflow.computation(
    server_step.get_hparams, state_type
  )
  set_hparams_fn = tff.tensorflow.computation(
    server_step.set_hparams,
    (state_type, get_hparams_fn.type_signature.result),
  )

  @tff.federated_computation
  def initialize_fn() -> tff.Value:
    return tff.federated_eval(initial_state, tff.SERVER)

  @tff.federated_computation(
    initialize_fn.type_signature.result,
    tff.FederatedType(weights_type, tff.SERVER),
    tff.FederatedType(round_type, tff.SERVER),
  )
  def next_fn(
    state: tff.Value, weights: tff.Value, round_update: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    new_state, trainable, measurements = tff.federated_map(
      guarded_step, (state, weights.trainable, round_update)
    )
    return tff.templates.MeasuredProcessOutput(
      new_state,
      tff.federated_zip(
        tff.learning.models.ModelWeights(trainable, weights.non_trainable)
      ),
      measurements,
    )

  return tff.learning.templates.FinalizerProcess(
    initialize_fn,
    next_fn,
    get_hparams_fn=get_hparams_fn,
    set_hparams_fn=set_hparams_fn,
  )


def _build_guarded_step(
  server_step: ServerStep,
  state_type: tff.Type,
  trainable_type: tff.Type,
  scalars: Mapping[str, type[np.generic]],
) -> tff.Computation:
  """Builds a step that is taken only if there are clients and all is finite."""
  round_type = tff.to_type(
    RoundUpdate(trainable_type, np.int32, collections.OrderedDict(scalars))
  )

  @tff.tensorflow.computation(state_type, trainable_type, round_type)
  def guarded_step(
    state: Any,
    trainable: TensorStructure,
    round_update: RoundUpdate,
  ) -> tuple[Any, TensorStructure, Mapping[str, tf.Tensor]]:
    new_state, new_trainable = server_step.step(state, trainable, round_update)
    any_client = round_update.num_clients > 0
    # Without clients, the new values are not used, so they need not be finite.
    finite = norms.all_finite(round_update.update) & (
      ~any_client | step_is_finite(new_state, new_trainable)
    )
    state, trainable = tf.cond(
      any_client & finite,
      lambda: (new_state, new_trainable),
      lambda: (state, trainable),
    )
    measurements = collections.OrderedDict(
      update_non_finite=1 - tf.cast(finite, tf.int32)
    )
    return state, trainable, measurements

  return guarded_step


def step_is_finite(state: Any, trainable: TensorStructure) -> tf.Tensor:
  """Returns whether a step leads to finite weights and a finite state, bool[].

  A finite direction does not suffice: if it is near the largest float, the
  weights after the step, or the optimizer's moments, may still overflow.
  """
  remembered = [
    tensor
    for tensor in map(tf.convert_to_tensor, tf.nest.flatten(state))
    if tensor.dtype.is_floating
  ]
  return norms.all_finite((trainable, remembered))


def build_apply_direction(
  optimizer: tff.learning.optimizers.Optimizer,
  weights_type: tff.Type,
  decay: LearningRateDecay | None = None,
) -> tff.learning.templates.FinalizerProcess:
  """Builds a finalizer that takes one optimizer step per round.

  Unlike `tff.learning.templates.build_apply_optimizer_finalizer`, it takes no
  step at all if all clients are excluded.

  Args:
    optimizer: The server optimizer.
    weights_type: The type of `tff.learning.models.ModelWeights`, W.
    decay: The decay of the learning rate; `None` for a constant rate.

  Returns:
    A finalizer with the types of `server_steps.build_finalizer`, and the
    hyperparameters of the optimizer before any decay.
  """

  def initialize() -> Any:
    return optimizer.initialize(
      tff.types.type_to_tf_tensor_specs(weights_type.trainable)
    )

  def step(
    state: Any,
    trainable: TensorStructure,
    round_update: RoundUpdate,
  ) -> tuple[Any, TensorStructure]:
    return optimizer.next(state, trainable, round_update.update)

  return build_finalizer(
    weights_type,
    ServerStep(initialize, step, optimizer.get_hparams, optimizer.set_hparams),
    scalars={},
    decay=decay,
  )
