"""The TFF forms of Keras classifiers."""

import functools

import tensorflow as tf
import tensorflow_federated as tff

from tasks import task
from tasks.models import dense, functional

_ACCURACY = "sparse_categorical_accuracy"


def class_objective() -> task.Objective:
  """Returns the objective of classifiers: cross entropy and accuracy."""
  return task.Objective(
    model_fn=model_fn,
    functional_model_fn=functional_model_fn,
    activation="softmax",
  )


def model_fn(
  build: task.KerasModelFn, element_spec: task.ElementSpec
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
      loss=_cross_entropy(),
      input_spec=element_spec,
      metrics=[tf.keras.metrics.SparseCategoricalAccuracy(_ACCURACY)],
    )

  return build_model


def functional_model_fn(
  build: task.KerasModelFn, element_spec: task.ElementSpec
) -> task.FunctionalModelFn:
  """Returns the same classifier as `Task.functional_model_fn` wants it.

  Args:
    build: As for `model_fn`.
    element_spec: Specs of `(x, y)`, y being class numbers.

  Returns:
    A function that returns `functional_model` of a network of dense layers;
    None of others.
  """
  return dense.functional_if_dense(
    build, functools.partial(functional_model, build, element_spec)
  )


def functional_model(
  build: task.KerasModelFn, element_spec: task.ElementSpec
) -> tff.learning.models.FunctionalModel:
  """Returns the same classifier as a `FunctionalModel`.

  Args:
    build: As for `model_fn`, and as `functional.functional_model` wants it.
    element_spec: Specs of `(x, y)`, y being class numbers.
  """
  return functional.functional_model(
    build,
    element_spec,
    loss=_cross_entropy(),
    metric=_ACCURACY,
    count=_count_hits,
  )


def _cross_entropy() -> tf.keras.losses.Loss:
  return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _count_hits(
  labels: tf.Tensor, logits: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  predicted = tf.argmax(logits, axis=-1)
  hits = tf.cast(tf.equal(predicted, tf.cast(labels, tf.int64)), tf.float32)
  return tf.reduce_sum(hits), tf.cast(tf.size(hits), tf.float32)
