"""Keras models as `FunctionalModel`s.

A `FunctionalModel` keeps weights and metrics in tensors, where a Keras model
assigns variables in every local step: for networks of dense layers that is most
of what a step costs beside its arithmetic (`python -m benchmarks.model_kinds`).
"""

import collections
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tasks import task


def functional_model(
  build: Callable[[], tf.keras.Model],
  element_spec: task.ElementSpec,
  *,
  loss: tf.keras.losses.Loss,
  metric: str,
  count: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]],
) -> tff.learning.models.FunctionalModel:
  """Returns a Keras model as a `FunctionalModel`.

  Args:
    build: Returns a new Keras model, always with the same weights. Its layers
      must do without state: outputs depend on weights and inputs alone, and all
      weights are trained.
    element_spec: Specs of `(x, y)`.
    loss: Mean over the examples of a batch.
    metric: Name of the metric, a mean.
    count: From labels and predictions of a batch to the sum and the weight,
      float32[] each, that it adds to the mean.

  Returns:
    A model with the metrics that `from_keras_model` would give it, by the same
    names and in the same order: `metric`, "loss", "num_examples" and
    "num_batches".
  """
  layers = tff.learning.models.functional_model_from_keras(
    build, loss, element_spec
  )

  def metrics(
    counted: Any, loss: Any, num_examples: Any, num_batches: Any
  ) -> collections.OrderedDict[str, Any]:
    return collections.OrderedDict(
      [
        (metric, counted),
        ("loss", loss),
        ("num_examples", num_examples),
        ("num_batches", num_batches),
      ]
    )

  @tf.function
  def initialize() -> Any:
    nothing = (tf.constant(0.0), tf.constant(0.0))
    zero = tf.constant(0, tf.int64)
    return metrics(nothing, nothing, zero, zero)

  @tf.function
  def update(
    state: Any, labels: Any, batch_output: Any, sample_weight: Any = None
  ) -> Any:
    del sample_weight  # There are none.
    num_examples = tf.shape(labels, tf.int64)[0]
    size = tf.cast(num_examples, tf.float32)
    counted = count(labels, batch_output.predictions)
    return metrics(
      _add(state[metric], counted),
      _add(state["loss"], (size * batch_output.loss, size)),
      state["num_examples"] + num_examples,
      state["num_batches"] + 1,
    )

  @tf.function
  def finalize(state: Any) -> Any:
    return metrics(
      tf.math.divide_no_nan(*state[metric]),
      tf.math.divide_no_nan(*state["loss"]),
      state["num_examples"],
      state["num_batches"],
    )

  return tff.learning.models.FunctionalModel(
    initial_weights=layers.initial_weights,
    predict_on_batch_fn=layers.predict_on_batch,
    loss_fn=layers.loss,
    metrics_fns=(initialize, update, finalize),
    input_spec=element_spec,
  )


def _add(total: Any, batch: Any) -> tuple[tf.Tensor, tf.Tensor]:
  return total[0] + batch[0], total[1] + batch[1]
