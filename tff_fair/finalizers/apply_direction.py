"""The server step: an optimizer applied to the direction of the round.

theta <- theta - eta_s d  with plain SGD; any TFF optimizer may take its place
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.kernels import finiteness


def build_apply_direction(
  optimizer: tff.learning.optimizers.Optimizer, weights_type: tff.Type
) -> tff.learning.templates.FinalizerProcess:
  """Builds a finalizer that takes one optimizer step per round.

  Differs from `tff.learning.templates.build_apply_optimizer_finalizer` in that
  it knows whether any client counted: without one, and for a step that is not
  finite, weights and optimizer state stay as they are, momentum included.

  Args:
    optimizer: The server optimizer.
    weights_type: The type of `tff.learning.models.ModelWeights`, W.

  Returns:
    A finalizer whose `next` has the type (<S@SERVER, W@SERVER,
    <update=W.trainable, num_clients=int32>@SERVER> -> <state=S@SERVER,
    result=W@SERVER, measurements=<update_non_finite=int32>@SERVER>). Its
    hyperparameters are those of the optimizer.
  """
  trainable_type = weights_type.trainable
  round_type = tff.to_type(
    collections.OrderedDict(update=trainable_type, num_clients=np.int32)
  )

  @tff.tensorflow.computation
  def initialize_optimizer() -> Any:
    return optimizer.initialize(
      tff.types.type_to_tf_tensor_specs(trainable_type)
    )

  state_type = initialize_optimizer.type_signature.result

  @tff.tensorflow.computation(state_type, trainable_type, round_type)
  def step(state: Any, trainable: Any, round_update: Any) -> Any:
    direction = round_update["update"]
    new_state, new_trainable = optimizer.next(state, trainable, direction)
    # A direction near the end of the range of floats is finite; a step along it
    # may not be.
    finite = finiteness.all_finite((direction, new_trainable))
    state, trainable = tf.cond(
      tf.logical_and(finite, round_update["num_clients"] > 0),
      lambda: (new_state, new_trainable),
      lambda: (state, trainable),
    )
    measurements = collections.OrderedDict(
      update_non_finite=1 - tf.cast(finite, tf.int32)
    )
    return state, trainable, measurements

  @tff.tensorflow.computation(state_type)
  def get_hparams(state: Any) -> Any:
    return optimizer.get_hparams(state)

  @tff.tensorflow.computation(state_type, get_hparams.type_signature.result)
  def set_hparams(state: Any, hparams: Any) -> Any:
    return optimizer.set_hparams(state, hparams)

  @tff.federated_computation
  def initialize() -> Any:
    return tff.federated_eval(initialize_optimizer, tff.SERVER)

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(weights_type, tff.SERVER),
    tff.FederatedType(round_type, tff.SERVER),
  )
  def next_fn(state: Any, weights: Any, round_update: Any) -> Any:
    state, trainable, measurements = tff.federated_map(
      step, (state, weights.trainable, round_update)
    )
    return tff.templates.MeasuredProcessOutput(
      state,
      tff.federated_zip(
        tff.learning.models.ModelWeights(trainable, weights.non_trainable)
      ),
      measurements,
    )

  return tff.learning.templates.FinalizerProcess(
    initialize,
    next_fn,
    get_hparams_fn=get_hparams,
    set_hparams_fn=set_hparams,
  )
