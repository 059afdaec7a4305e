"""The common part of all finalizers: they take a step only if they can.

Without a client that counts, and where direction or new weights would not be
finite, weights and state stay as they are, momentum included.
"""

import collections
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.finalizers import decaying
from tff_fair.kernels import finiteness
from tff_fair.optimizers.learning_rate_decay import Hparams, LearningRateDecay
from tff_fair.types import TensorStructure


def build_stepping_finalizer(
  weights_type: tff.Type,
  server_step: decaying.ServerStep,
  *,
  scalars: Mapping[str, type[np.generic]],
  decay: LearningRateDecay | None = None,
) -> tff.learning.templates.FinalizerProcess:
  """Builds a finalizer from TensorFlow functions.

  Args:
    weights_type: The type of `tff.learning.models.ModelWeights`, W.
    server_step: The step, where it can be taken.
    scalars: Types of the scalars that the rule sends beside the direction.
    decay: Of its learning rate; `None` keeps it.

  Returns:
    A finalizer whose `next` has the type (<S@SERVER, W@SERVER,
    <update=W.trainable, num_clients=int32, scalars=...>@SERVER> ->
    <state=S@SERVER, result=W@SERVER,
    measurements=<update_non_finite=int32>@SERVER>).
  """
  if decay is not None:
    server_step = decaying.with_decay(server_step, decay)
  initial_state = tff.tensorflow.computation(server_step.initialize)
  state_type = initial_state.type_signature.result
  guarded_step = _build_guarded_step(
    server_step, state_type, weights_type.trainable, scalars
  )
  round_type = guarded_step.type_signature.parameter[2]

  @tff.tensorflow.computation(state_type)
  def get_hparams_fn(state: Any) -> Hparams:
    return server_step.get_hparams(state)

  @tff.tensorflow.computation(state_type, get_hparams_fn.type_signature.result)
  def set_hparams_fn(state: Any, hparams: Hparams) -> Any:
    return server_step.set_hparams(state, hparams)

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
  server_step: decaying.ServerStep,
  state_type: tff.Type,
  trainable_type: tff.Type,
  scalars: Mapping[str, type[np.generic]],
) -> tff.Computation:
  """Builds the step: state, weights, round to state, weights, measurements."""
  round_type = tff.to_type(
    collections.OrderedDict(
      update=trainable_type,
      num_clients=np.int32,
      scalars=collections.OrderedDict(scalars),
    )
  )

  @tff.tensorflow.computation(state_type, trainable_type, round_type)
  def guarded_step(
    state: Any,
    trainable: TensorStructure,
    round_update: decaying.RoundUpdate,
  ) -> tuple[Any, TensorStructure, Mapping[str, tf.Tensor]]:
    new_state, new_trainable = server_step.step(state, trainable, round_update)
    any_client = round_update["num_clients"] > 0
    # Without a client there is no step, and no number of it matters.
    finite = finiteness.all_finite(round_update["update"]) & (
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
  """Returns whether a step ends at finite weights and a finite state, bool[].

  A direction near the end of the range of floats is finite. A step along it, or
  the optimizer's memory of it, may not be.

  Args:
    state: The state after the step; its floating tensors count.
    trainable: The weights after the step.
  """
  remembered = [
    tensor
    for tensor in map(tf.convert_to_tensor, tf.nest.flatten(state))
    if tensor.dtype.is_floating
  ]
  return finiteness.all_finite((trainable, remembered))
