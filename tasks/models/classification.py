"""The TFF forms of Keras classifiers."""

import functools
from collections.abc import Sequence

import tensorflow as tf
import tensorflow_federated as tff

from tasks import task
from tasks.models import dense, functional

_ACCURACY = "sparse_categorical_accuracy"


def class_objective(
  class_weights: Sequence[float] | None = None,
) -> task.Objective:
  """Returns the objective of classifiers: cross entropy and accuracy.

  Args:
    class_weights: What an example of each class counts for in the loss, which
      is still divided by the number of examples; None is 1 for all.
  """
  if class_weights is None:
    return task.Objective(
      model_fn=model_fn,
      functional_model_fn=functional_model_fn,
      activation="softmax",
    )
  weights = tuple(map(float, class_weights))
  return task.Objective(
    model_fn=functools.partial(model_fn, class_weights=weights),
    functional_model_fn=functools.partial(
      functional_model_fn, class_weights=weights
    ),
    activation="softmax",
  )


def model_fn(
  build: task.KerasModelFn,
  element_spec: task.ElementSpec,
  class_weights: tuple[float, ...] | None = None,
) -> task.ModelFn:
  """Returns the TFF form of a classifier, as `Task.model_fn` wants it.

  Args:
    build: Returns a new Keras model whose outputs are logits.
    element_spec: Specs of `(x, y)`, y being class numbers.
    class_weights: As `class_objective` takes them.

  Returns:
    A function that returns a new model with softmax cross entropy as its loss
    and accuracy as its metric.
  """

  def build_model() -> tff.learning.models.VariableModel:
    return tff.learning.models.from_keras_model(
      build(),
      loss=_cross_entropy(class_weights),
      input_spec=element_spec,
      metrics=[tf.keras.metrics.SparseCategoricalAccuracy(_ACCURACY)],
    )

  return build_model


def functional_model_fn(
  build: task.KerasModelFn,
  element_spec: task.ElementSpec,
  class_weights: tuple[float, ...] | None = None,
) -> task.FunctionalModelFn:
  """Returns the same classifier as `Task.functional_model_fn` wants it.

  Args:
    build: As for `model_fn`.
    element_spec: Specs of `(x, y)`, y being class numbers.
    class_weights: As `class_objective` takes them.

  Returns:
    A function that returns `functional_model` of a network of dense layers;
    None of others.
  """
  return dense.functional_if_dense(
    build,
    functools.partial(functional_model, build, element_spec, class_weights),
  )


def functional_model(
  build: task.KerasModelFn,
  element_spec: task.ElementSpec,
  class_weights: tuple[float, ...] | None = None,
) -> tff.learning.models.FunctionalModel:
  """Returns the same classifier as a `FunctionalModel`.

  Args:
    build: As for `model_fn`, and as `functional.functional_model` wants it.
    element_spec: Specs of `(x, y)`, y being class numbers.
    class_weights: As `class_objective` takes them.
  """
  return functional.functional_model(
    build,
    element_spec,
    loss=_cross_entropy(class_weights),
    metric=_ACCURACY,
    count=_count_hits,
  )


def _cross_entropy(
  class_weights: tuple[float, ...] | None,
) -> tf.keras.losses.Loss:
  if class_weights is None:
    return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  return _WeightedCrossEntropy(class_weights)


class _WeightedCrossEntropy(tf.keras.losses.Loss):
  """Cross entropy of logits, each example times the weight of its class."""

  def __init__(self, class_weights: tuple[float, ...]) -> None:
    super().__init__()
    self._weights = class_weights

  def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """Returns the weighted loss of each example."""
    labels = tf.cast(y_true, tf.int32)
    if labels.shape.rank == y_pred.shape.rank:  # Keras may add an axis.
      labels = tf.squeeze(labels, -1)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, y_pred)
    return losses * tf.gather(tf.constant(self._weights), labels)


def _count_hits(
  labels: tf.Tensor, logits: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  predicted = tf.argmax(logits, axis=-1)
  hits = tf.cast(tf.equal(predicted, tf.cast(labels, tf.int64)), tf.float32)
  return tf.reduce_sum(hits), tf.cast(tf.size(hits), tf.float32)
