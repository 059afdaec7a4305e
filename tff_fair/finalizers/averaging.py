"""Keeps the running mean of the weights over the rounds.

  average_T = (1/T) sum_{t=1}^T theta_t

over the rounds in which any client counted; what AFL's theory evaluates.
"""

import collections
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff


def build_averaging(
  finalizer: tff.learning.templates.FinalizerProcess,
) -> tff.learning.templates.FinalizerProcess:
  """Builds a finalizer that does as another one and averages its results.

  Args:
    finalizer: Takes the step; its third argument has a field `num_clients`.

  Returns:
    A finalizer of the same types, but for its state: <step=S,
    average=<weights=W, num_rounds=int64>>@SERVER. Before the first round the
    weights in it are zero.
  """
  parameter: Any = finalizer.next.type_signature.parameter
  state_type, weights_type, round_type = (p.member for p in parameter)

  @tff.tensorflow.computation
  def no_average() -> Any:
    specs = tff.types.type_to_tf_tensor_specs(weights_type)
    return collections.OrderedDict(
      weights=tf.nest.map_structure(
        lambda spec: tf.zeros(spec.shape, spec.dtype), specs
      ),
      num_rounds=tf.constant(0, tf.int64),
    )

  average_type = no_average.type_signature.result

  @tff.tensorflow.computation(average_type, weights_type, round_type)
  def move(average: Any, weights: Any, round_update: Any) -> Any:
    counted = tf.cast(round_update["num_clients"] > 0, tf.int64)
    num_rounds = average["num_rounds"] + counted
    share = counted / tf.maximum(num_rounds, 1)
    return collections.OrderedDict(
      weights=tf.nest.map_structure(
        lambda mean, weight: (
          mean + tf.cast(share, mean.dtype) * (weight - mean)
        ),
        average["weights"],
        weights,
      ),
      num_rounds=num_rounds,
    )

  @tff.tensorflow.computation(
    tff.to_type(collections.OrderedDict(step=state_type, average=average_type))
  )
  def get_hparams(state: Any) -> Any:
    return finalizer.get_hparams(state["step"])

  @tff.tensorflow.computation(
    get_hparams.type_signature.parameter, get_hparams.type_signature.result
  )
  def set_hparams(state: Any, hparams: Any) -> Any:
    return collections.OrderedDict(
      step=finalizer.set_hparams(state["step"], hparams),
      average=state["average"],
    )

  @tff.federated_computation
  def initialize() -> Any:
    return tff.federated_zip(
      collections.OrderedDict(
        step=finalizer.initialize(),
        average=tff.federated_eval(no_average, tff.SERVER),
      )
    )

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(weights_type, tff.SERVER),
    tff.FederatedType(round_type, tff.SERVER),
  )
  def next_fn(state: Any, weights: Any, round_update: Any) -> Any:
    output = finalizer.next(state["step"], weights, round_update)
    average = tff.federated_map(
      move, (state["average"], output.result, round_update)
    )
    return tff.templates.MeasuredProcessOutput(
      tff.federated_zip(
        collections.OrderedDict(step=output.state, average=average)
      ),
      output.result,
      output.measurements,
    )

  return tff.learning.templates.FinalizerProcess(
    initialize,
    next_fn,
    get_hparams_fn=get_hparams,
    set_hparams_fn=set_hparams,
  )
