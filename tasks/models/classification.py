"""The TFF forms of Keras classifiers.

A `FunctionalModel` keeps weights and metrics in tensors, where a Keras model
assigns variables in every local step: for small networks that is most of what a
step costs beside its arithmetic (`python -m benchmarks.model_kinds`).
"""

import collections
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tasks import task
from tasks.models import dense

_ACCURACY = "sparse_categorical_accuracy"


def model_fn(
  build: Callable[[], tf.keras.Model], element_spec: task.ElementSpec
) -> task.ModelFn:
  """Returns the TFF form of a classifier, as `Task.model_fn` wants it.

  Args:
    build: Returns a new Keras model whose outputs are logits.
    element_spec: Specs of `(x, y)`, y being class numbers.

  Returns:
    A function that returns a new model with softmax cross entropy as its loss
    and accuracy as its metric.
  """

  def build_model() -> tff.learning.models.VariableModel:
    return tff.learning.models.from_keras_model(
      build(),
      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      input_spec=element_spec,
      metrics=[tf.keras.metrics.SparseCategoricalAccuracy(_ACCURACY)],
    )

  return build_model


def functional_model_fn(
  build: Callable[[], tf.keras.Model], element_spec: task.ElementSpec
) -> task.FunctionalModelFn:
  """Returns the same classifier as `Task.functional_model_fn` wants it.

  Args:
    build: As for `model_fn`.
    element_spec: Specs of `(x, y)`, y being class numbers.

  Returns:
    A function that returns `functional_model` of a network of dense layers, the
    same each time; None of others: those with convolutions train as fast as
    Keras models.
  """

  @functools.cache
  def build_model() -> tff.learning.models.FunctionalModel | None:
    with tf.Graph().as_default():
      is_dense = dense.is_dense(build())
    return functional_model(build, element_spec) if is_dense else None

  return build_model


def functional_model(
  build: Callable[[], tf.keras.Model], element_spec: task.ElementSpec
) -> tff.learning.models.FunctionalModel:
  """Returns the same classifier as a `FunctionalModel`.

  Args:
    build: As for `model_fn`. Its layers must do without state: outputs depend
      on weights and inputs alone, and all weights are trained.
    element_spec: Specs of `(x, y)`, y being class numbers.

  Returns:
    A model with the initial weights, the loss and the metrics of `model_fn`'s.
  """
  layers = tff.learning.models.functional_model_from_keras(
    build,
    tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    element_spec,
  )
  return tff.learning.models.FunctionalModel(
    initial_weights=layers.initial_weights,
    predict_on_batch_fn=layers.predict_on_batch,
    loss_fn=layers.loss,
    metrics_fns=(_no_metrics, _add_metrics, _finalize_metrics),
    input_spec=element_spec,
  )


# The metrics of `from_keras_model`, by the same names and in the same order.


@tf.function
def _no_metrics() -> Any:
  nothing = (tf.constant(0.0), tf.constant(0.0))
  return _metrics(
    nothing, nothing, tf.constant(0, tf.int64), tf.constant(0, tf.int64)
  )


@tf.function
def _add_metrics(
  state: Any, labels: Any, batch_output: Any, sample_weight: Any = None
) -> Any:
  del sample_weight  # There are none.
  num_examples = tf.shape(labels, tf.int64)[0]
  size = tf.cast(num_examples, tf.float32)
  predicted = tf.argmax(batch_output.predictions, axis=-1)
  hits = tf.equal(predicted, tf.cast(labels, tf.int64))
  num_hits, num_predicted = state[_ACCURACY]
  loss_sum, loss_count = state["loss"]
  return _metrics(
    (num_hits + tf.reduce_sum(tf.cast(hits, tf.float32)), num_predicted + size),
    (loss_sum + size * batch_output.loss, loss_count + size),
    state["num_examples"] + num_examples,
    state["num_batches"] + 1,
  )


@tf.function
def _finalize_metrics(state: Any) -> Any:
  return _metrics(
    tf.math.divide_no_nan(*state[_ACCURACY]),
    tf.math.divide_no_nan(*state["loss"]),
    state["num_examples"],
    state["num_batches"],
  )


def _metrics(
  accuracy: Any, loss: Any, num_examples: Any, num_batches: Any
) -> collections.OrderedDict[str, Any]:
  return collections.OrderedDict(
    [
      (_ACCURACY, accuracy),
      ("loss", loss),
      ("num_examples", num_examples),
      ("num_batches", num_batches),
    ]
  )
