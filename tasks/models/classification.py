"""The TFF forms of Keras classifiers."""

import dataclasses
import functools
from collections.abc import Callable, Sequence

import tensorflow as tf
import tensorflow_federated as tff

from tasks import task
from tasks.models import dense, functional

_ACCURACY = "sparse_categorical_accuracy"


# Maps class numbers, int32[n], and logits, float32[n, C], to losses,
# float32[n].
LossFn = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def class_objective(
  class_weights: Sequence[float] | None = None, loss: LossFn | None = None
) -> task.Objective:
  """Returns the objective of classifiers: a loss, and accuracy.

  Args:
    class_weights: What an example of each class counts for in the loss, which
      is still divided by the number of examples; None is 1 for all.
    loss: Takes the place of the cross entropy, and of its weights.
  """
  if loss is None and class_weights is not None:
    loss = _Weighted(tuple(map(float, class_weights)))
  if loss is None:
    return task.Objective(
      model_fn=model_fn,
      functional_model_fn=functional_model_fn,
      activation="softmax",
    )
  return task.Objective(
    model_fn=functools.partial(model_fn, loss=loss),
    functional_model_fn=functools.partial(functional_model_fn, loss=loss),
    activation="softmax",
  )


def model_fn(
  build: task.KerasModelFn,
  element_spec: task.ElementSpec,
  loss: LossFn | None = None,
) -> task.ModelFn:
  """Returns the TFF form of a classifier, as `Task.model_fn` wants it.

  Args:
    build: Returns a new Keras model whose outputs are logits.
    element_spec: Specs of `(x, y)`, y being class numbers.
    loss: As `class_objective` takes it; by default softmax cross entropy.

  Returns:
    A function that returns a new model with that loss
    and accuracy as its metric.
  """

  def build_model() -> tff.learning.models.VariableModel:
    return tff.learning.models.from_keras_model(
      build(),
      loss=_keras_loss(loss),
      input_spec=element_spec,
      metrics=[tf.keras.metrics.SparseCategoricalAccuracy(_ACCURACY)],
    )

  return build_model


def functional_model_fn(
  build: task.KerasModelFn,
  element_spec: task.ElementSpec,
  loss: LossFn | None = None,
) -> task.FunctionalModelFn:
  """Returns the same classifier as `Task.functional_model_fn` wants it.

  Args:
    build: As for `model_fn`.
    element_spec: Specs of `(x, y)`, y being class numbers.
    loss: As `class_objective` takes it; by default softmax cross entropy.

  Returns:
    A function that returns `functional_model` of a network of dense layers;
    None of others.
  """
  return dense.functional_if_dense(
    build,
    functools.partial(functional_model, build, element_spec, loss),
  )


def functional_model(
  build: task.KerasModelFn,
  element_spec: task.ElementSpec,
  loss: LossFn | None = None,
) -> tff.learning.models.FunctionalModel:
  """Returns the same classifier as a `FunctionalModel`.

  Args:
    build: As for `model_fn`, and as `functional.functional_model` wants it.
    element_spec: Specs of `(x, y)`, y being class numbers.
    loss: As `class_objective` takes it; by default softmax cross entropy.
  """
  return functional.functional_model(
    build,
    element_spec,
    loss=_keras_loss(loss),
    metric=_ACCURACY,
    count=_count_hits,
  )


def _keras_loss(loss: LossFn | None) -> tf.keras.losses.Loss:
  if loss is None:
    return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  return _LossOfClasses(loss)


class _LossOfClasses(tf.keras.losses.Loss):
  """A function of class numbers and logits as Keras takes it."""

  def __init__(self, loss: LossFn) -> None:
    super().__init__()
    self._loss = loss

  def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """Returns the loss of each example."""
    labels = tf.cast(y_true, tf.int32)
    if labels.shape.rank == y_pred.shape.rank:  # Keras may add an axis.
      labels = tf.squeeze(labels, -1)
    return self._loss(labels, y_pred)


@dataclasses.dataclass(frozen=True)
class _Weighted:
  """Cross entropy of logits, each example times the weight of its class."""

  class_weights: tuple[float, ...]

  def __call__(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """Returns the weighted loss of each example."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
    return losses * tf.gather(tf.constant(self.class_weights), labels)


def _count_hits(
  labels: tf.Tensor, logits: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  predicted = tf.argmax(logits, axis=-1)
  hits = tf.cast(tf.equal(predicted, tf.cast(labels, tf.int64)), tf.float32)
  return tf.reduce_sum(hits), tf.cast(tf.size(hits), tf.float32)
