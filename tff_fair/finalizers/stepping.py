"""What all finalizers here share: a step is taken only if it can be.

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
from tff_fair.learning_rate_decay import LearningRateDecay


def build_stepping_finalizer(
  weights_type: tff.Type,
  server_step: decaying.ServerStep,
  *,
  scalars: Mapping[str, Any],
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
  trainable_type = weights_type.trainable
  round_type = tff.to_type(
    collections.OrderedDict(
      update=trainable_type,
      num_clients=np.int32,
      scalars=collections.OrderedDict(scalars),
    )
  )
  initial_state = tff.tensorflow.computation(server_step.initialize)
  state_type = initial_state.type_signature.result

  @tff.tensorflow.computation(state_type, trainable_type, round_type)
  def guarded_step(state: Any, trainable: Any, round_update: Any) -> Any:
    new_state, new_trainable = server_step.step(state, trainable, round_update)
    # A direction near the end of the range of floats is finite; a step along it
    # or what is remembered of it may not be.
    remembered = [
      tensor
      for tensor in map(tf.convert_to_tensor, tf.nest.flatten(new_state))
      if tensor.dtype.is_floating
    ]
    any_client = round_update["num_clients"] > 0
    # Without a client there is no step whose numbers could matter.
    finite = finiteness.all_finite(round_update["update"]) & (
      ~any_client | finiteness.all_finite((new_trainable, remembered))
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

  @tff.tensorflow.computation(state_type)
  def get_hparams_fn(state: Any) -> Any:
    return server_step.get_hparams(state)

  @tff.tensorflow.computation(state_type, get_hparams_fn.type_signature.result)
  def set_hparams_fn(state: Any, hparams: Any) -> Any:
    return server_step.set_hparams(state, hparams)

  @tff.federated_computation
  def initialize_fn() -> Any:
    return tff.federated_eval(initial_state, tff.SERVER)

  @tff.federated_computation(
    initialize_fn.type_signature.result,
    tff.FederatedType(weights_type, tff.SERVER),
    tff.FederatedType(round_type, tff.SERVER),
  )
  def next_fn(state: Any, weights: Any, round_update: Any) -> Any:
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
