"""Keeps the running mean of the weights over the rounds.

  average_T = (1/T) sum_{t=1}^T theta_t

over the rounds in which any client counted. AFL's theory evaluates this mean.
"""

import collections
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.finalizers import stepping
from tff_fair.kernels import stacking
from tff_fair.optimizers.learning_rate_decay import Hparams

# `step`, the state of the other finalizer, and `average`: `weights`, as a model
# has them, and `num_rounds`, int64[].
_State: TypeAlias = collections.OrderedDict[str, Any]


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
  parameter: tff.StructType = finalizer.next.type_signature.parameter
  _, weights_type, round_type = (p.member for p in parameter)
  specs = tff.types.type_to_tf_tensor_specs(weights_type)

  @tff.tensorflow.computation
  def no_average() -> Any:
    return collections.OrderedDict(
      weights=stacking.zeros(specs), num_rounds=tf.constant(0, tf.int64)
    )

  @tff.tensorflow.computation(
    no_average.type_signature.result, weights_type, round_type
  )
  def move(
    average: Any,
    weights: tff.learning.models.ModelWeights,
    round_update: stepping.RoundUpdate,
  ) -> Any:
    # A round without a client is left out.
    counted = tf.cast(round_update["num_clients"] > 0, tf.int64)
    num_rounds = average["num_rounds"] + counted
    share = counted / tf.maximum(num_rounds, 1)
    means = tf.nest.map_structure(
      lambda mean, weight: mean + tf.cast(share, mean.dtype) * (weight - mean),
      average["weights"],
      weights,
    )
    return collections.OrderedDict(weights=means, num_rounds=num_rounds)

  @tff.federated_computation
  def initialize() -> tff.Value:
    return tff.federated_zip(
      collections.OrderedDict(
        step=finalizer.initialize(),
        average=tff.federated_eval(no_average, tff.SERVER),
      )
    )

  state_type = initialize.type_signature.result

  @tff.federated_computation(state_type, *parameter[1:])
  def next_fn(
    state: tff.Value, weights: tff.Value, round_update: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
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

  @tff.tensorflow.computation(state_type.member)
  def get_hparams(state: _State) -> Hparams:
    return finalizer.get_hparams(state["step"])

  @tff.tensorflow.computation(
    state_type.member, get_hparams.type_signature.result
  )
  def set_hparams(state: _State, hparams: Hparams) -> _State:
    step = finalizer.set_hparams(state["step"], hparams)
    return collections.OrderedDict(step=step, average=state["average"])

  return tff.learning.templates.FinalizerProcess(
    initialize,
    next_fn,
    get_hparams_fn=get_hparams,
    set_hparams_fn=set_hparams,
  )
