"""The TFF forms of Keras models that predict a number, or several at once.

The loss is the mean squared error, in the units that the task gives its labels.
That of an example with several numbers is the mean over these.
"""

from collections.abc import Callable

import tensorflow as tf
import tensorflow_federated as tff

from tasks import task
from tasks.models import dense, functional

_ABSOLUTE_ERROR = "mean_absolute_error"


def number_objective() -> task.Objective:
  """Returns the objective of regressions: the mean squared error."""
  return task.Objective(
    model_fn=number_model_fn, functional_model_fn=number_functional_model_fn
  )


def number_model_fn(
  build: task.KerasModelFn, element_spec: task.ElementSpec
) -> task.ModelFn:
  """Returns the TFF form of a regression, as `Task.model_fn` wants it.

  Args:
    build: Returns a new Keras model with one output, float32[n, 1], or with
      those of all numbers, float32[n, t].
    element_spec: Specs of `(x, y)`, y being float32[n], or float32[n, t].

  Returns:
    A function that returns a new model with the mean squared error as its loss
    and the mean absolute error as its metric.
  """

  def build_model() -> tff.learning.models.VariableModel:
    return tff.learning.models.from_keras_model(
      build(),
      loss=_SquaredError(),
      input_spec=element_spec,
      metrics=[_MeanAbsoluteError(_ABSOLUTE_ERROR)],
    )

  return build_model


def number_functional_model_fn(
  build: task.KerasModelFn, element_spec: task.ElementSpec
) -> task.FunctionalModelFn:
  """Returns the same regression as `Task.functional_model_fn` wants it.

  Args:
    build: As for `number_model_fn`.
    element_spec: Specs of `(x, y)`.
  """

  def functional_model() -> tff.learning.models.FunctionalModel:
    return functional.functional_model(
      build,
      element_spec,
      loss=_SquaredError(),
      metric=_ABSOLUTE_ERROR,
      count=_add_absolute_errors,
    )

  return dense.functional_if_dense(build, functional_model)


def _mean_of_errors(
  of_error: Callable[[tf.Tensor], tf.Tensor],
  labels: tf.Tensor,
  outputs: tf.Tensor,
) -> tf.Tensor:
  """Returns the mean over an example's numbers of what `of_error` gives.

  Args:
    of_error: Maps errors to numbers of the same shape.
    labels: float32[n], or float32[n, t].
    outputs: float32[n, 1], or float32[n, t].

  Returns:
    float32[n].
  """
  if labels.shape.rank == 1:
    labels = tf.expand_dims(labels, -1)
  return tf.reduce_mean(of_error(outputs - labels), axis=-1)


def _add_absolute_errors(
  labels: tf.Tensor, outputs: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  errors = _mean_of_errors(tf.abs, labels, outputs)
  return tf.reduce_sum(errors), tf.cast(tf.size(errors), tf.float32)


class _SquaredError(tf.keras.losses.Loss):
  """The mean square of an example's errors."""

  def call(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    return _mean_of_errors(tf.square, labels, outputs)


class _MeanAbsoluteError(tf.keras.metrics.MeanAbsoluteError):
  """The mean over examples; of labels without an axis, Keras has batches."""

  def update_state(
    self,
    y_true: tf.Tensor,
    y_pred: tf.Tensor,
    sample_weight: tf.Tensor | None = None,
  ) -> tf.Operation:
    if y_true.shape.rank == 1:
      y_true = tf.expand_dims(y_true, -1)
    return super().update_state(y_true, y_pred, sample_weight)
