"""The TFF form of Keras classifiers."""

from collections.abc import Callable

import tensorflow as tf
import tensorflow_federated as tff

from tasks import task


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
      metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
    )

  return build_model
