"""Keras models as `FunctionalModel`s.

A `FunctionalModel` keeps weights and metrics in tensors, where a Keras model
assigns variables in every local step. In networks of dense layers, this is most
of a step's cost beside its arithmetic (`python -m benchmarks.model_kinds`).
"""

import collections
import functools
from collections.abc import Callable

import tensorflow as tf
import tensorflow_federated as tff

from tasks import task

# A mean as a sum and a weight, float32[] each.
_Mean = tuple[tf.Tensor, tf.Tensor]
# By name: a tensor, or a mean that is not finished.
_Metrics = collections.OrderedDict[str, tf.Tensor]

# Without AutoGraph, which takes time and finds nothing to convert.
_graph_function = functools.partial(tf.function, autograph=False)

Count = Callable[[tf.Tensor, tf.Tensor], _Mean]


def functional_model(
  build: task.KerasModelFn,
  element_spec: task.ElementSpec,
  *,
  loss: tf.keras.losses.Loss,
  metric: str,
  count: Count,
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
  return tff.learning.models.FunctionalModel(
    initial_weights=layers.initial_weights,
    predict_on_batch_fn=layers.predict_on_batch,
    loss_fn=layers.loss,
    metrics_fns=_metrics_fns(metric, count),
    input_spec=element_spec,
  )


def _metrics_fns(
  metric: str, count: Count
) -> tuple[Callable[..., _Metrics], ...]:
  """Returns how metrics begin, how a batch adds to them, and how they end."""

  @_graph_function
  def initialize() -> _Metrics:
    nothing = (tf.constant(0.0), tf.constant(0.0))
    zero = tf.constant(0, tf.int64)
    return _named(metric, nothing, nothing, zero, zero)

  @_graph_function
  def update(
    state: _Metrics,
    labels: tf.Tensor,
    batch_output: tff.learning.models.BatchOutput,
    sample_weight: tf.Tensor | None = None,
  ) -> _Metrics:
    del sample_weight  # TFF gives none.
    num_examples = tf.shape(labels, tf.int64)[0]
    size = tf.cast(num_examples, tf.float32)
    counted = count(labels, batch_output.predictions)
    return _named(
      metric,
      _add(state[metric], counted),
      _add(state["loss"], (size * batch_output.loss, size)),
      state["num_examples"] + num_examples,
      state["num_batches"] + 1,
    )

  @_graph_function
  def finalize(state: _Metrics) -> _Metrics:
    return _named(
      metric,
      tf.math.divide_no_nan(*state[metric]),
      tf.math.divide_no_nan(*state["loss"]),
      state["num_examples"],
      state["num_batches"],
    )

  return initialize, update, finalize


def _named(
  metric: str,
  counted: tf.Tensor | _Mean,
  loss: tf.Tensor | _Mean,
  num_examples: tf.Tensor,
  num_batches: tf.Tensor,
) -> _Metrics:
  return collections.OrderedDict(
    [
      (metric, counted),
      ("loss", loss),
      ("num_examples", num_examples),
      ("num_batches", num_batches),
    ]
  )


def _add(total: _Mean, batch: _Mean) -> _Mean:
  return total[0] + batch[0], total[1] + batch[1]
