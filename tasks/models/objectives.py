"""Converts Keras models to TFF's two model classes, with a loss and a metric.

A `FunctionalModel` keeps weights and metrics in tensors, while a Keras model
assigns variables in every local step. In dense networks, these assignments are
most of a step's cost besides arithmetic (docs/measurements.md).
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Sequence

import tensorflow as tf
import tensorflow_federated as tff

from tasks import task
from tasks.models import dense
from tff_fair import keras_state

# A mean as a sum and a weight, float32[] each.
_Mean = tuple[tf.Tensor, tf.Tensor]
# Metrics by name: tensors, or means as in `_Mean`.
_Metrics = collections.OrderedDict[str, tf.Tensor]

# Without AutoGraph, which takes time and has nothing to convert here.
_graph_function = functools.partial(tf.function, autograph=False)

Count = Callable[[tf.Tensor, tf.Tensor], _Mean]


def variable_model_fn(
  build: task.KerasModelFn,
  element_spec: task.ElementSpec,
  *,
  loss: Callable[[], tf.keras.losses.Loss],
  metric: Callable[[], tf.keras.metrics.Metric],
) -> task.ModelFn:
  """Returns a function that builds a `VariableModel` from a Keras model."""

  def build_model() -> tff.learning.models.VariableModel:
    return tff.learning.models.from_keras_model(
      build(), loss=loss(), input_spec=element_spec, metrics=[metric()]
    )

  return build_model


@dataclasses.dataclass(frozen=True)
class LossAndMetric:
  """A loss and a metric, with conversions of Keras models to TFF's models."""

  loss: Callable[[], tf.keras.losses.Loss]  # Its value is a mean over a batch.
  metric: Callable[[str], tf.keras.metrics.Metric]  # Takes the metric's name.
  metric_name: str
  # Maps a batch's labels and predictions to the sum and the weight that the
  # batch adds to the metric, float32[] each.
  count: Count

  def model_fn(
    self, build: task.KerasModelFn, element_spec: task.ElementSpec
  ) -> task.ModelFn:
    """Returns a function that builds a new `VariableModel`."""
    metric = functools.partial(self.metric, self.metric_name)
    return variable_model_fn(build, element_spec, loss=self.loss, metric=metric)

  @keras_state.preserve()
  def functional_model(
    self, build: task.KerasModelFn, element_spec: task.ElementSpec
  ) -> tff.learning.models.FunctionalModel:
    """Returns a `FunctionalModel` with the metrics of the `VariableModel`.

    The layers must be stateless: outputs depend only on weights and inputs, and
    all weights are trainable.
    """
    layers = tff.learning.models.functional_model_from_keras(
      build, self.loss(), element_spec
    )
    return tff.learning.models.FunctionalModel(
      initial_weights=layers.initial_weights,
      predict_on_batch_fn=layers.predict_on_batch,
      loss_fn=layers.loss,
      metrics_fns=_metrics_fns(self.metric_name, self.count),
      input_spec=element_spec,
    )

  def functional_if_dense(
    self, build: task.KerasModelFn, element_spec: task.ElementSpec
  ) -> task.FunctionalModelFn:
    """Returns a function that builds a `FunctionalModel` of a dense network.

    For other networks, such as convolutions, the function returns None, because
    they train equally fast as Keras models.
    """

    @functools.cache
    def build_model() -> tff.learning.models.FunctionalModel | None:
      with tf.Graph().as_default():
        fits = dense.is_dense(build())
      return self.functional_model(build, element_spec) if fits else None

    return build_model

  def functional(
    self, build: task.KerasModelFn, element_spec: task.ElementSpec
  ) -> task.FunctionalModelFn:
    """Returns a function that builds a `FunctionalModel` of any network."""
    return functools.cache(
      functools.partial(self.functional_model, build, element_spec)
    )


def _metrics_fns(
  metric: str, count: Count
) -> tuple[Callable[..., _Metrics], ...]:
  """Returns functions that initialize, update and finalize the metrics."""
  names = (metric, "loss", "num_examples", "num_batches")

  def by_name(*values: tf.Tensor | _Mean) -> _Metrics:
    return collections.OrderedDict(zip(names, values, strict=True))

  @_graph_function
  def initialize() -> _Metrics:
    nothing = (tf.constant(0.0), tf.constant(0.0))
    zero = tf.constant(0, tf.int64)
    return by_name(nothing, nothing, zero, zero)

  @_graph_function
  def update(
    state: _Metrics,
    labels: tf.Tensor,
    batch_output: tff.learning.models.BatchOutput,
    sample_weight: tf.Tensor | None = None,
  ) -> _Metrics:
    del sample_weight  # TFF never passes weights.
    num_examples = tf.shape(labels, tf.int64)[0]
    size = tf.cast(num_examples, tf.float32)
    counted = count(labels, batch_output.predictions)
    return by_name(
      _add(state[metric], counted),
      _add(state["loss"], (size * batch_output.loss, size)),
      state["num_examples"] + num_examples,
      state["num_batches"] + 1,
    )

  @_graph_function
  def finalize(state: _Metrics) -> _Metrics:
    return by_name(
      tf.math.divide_no_nan(*state[metric]),
      tf.math.divide_no_nan(*state["loss"]),
      state["num_examples"],
      state["num_batches"],
    )

  return initialize, update, finalize


def _add(total: _Mean, batch: _Mean) -> _Mean:
  return total[0] + batch[0], total[1] + batch[1]


_ACCURACY = "sparse_categorical_accuracy"
_cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy

# Returns losses, float32[n], from class numbers, int32[n], and logits,
# [n, classes]; or from one or t numbers per example and their predictions, both
# float32[n] or [n, t].
LossFn = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def class_objective(
  class_weights: Sequence[float] | None = None, loss: LossFn | None = None
) -> task.Objective:
  """Returns the objective of classifiers: a loss, and accuracy."""
  if loss is None and class_weights is not None:
    loss = _WeightedCrossEntropy(tuple(map(float, class_weights)))
  form = LossAndMetric(
    functools.partial(_cross_entropy, from_logits=True)
    if loss is None
    else functools.partial(_LossOfClasses, loss),
    tf.keras.metrics.SparseCategoricalAccuracy,
    _ACCURACY,
    _count_hits,
  )
  return task.Objective(
    model_fn=form.model_fn,
    functional_model_fn=form.functional_if_dense,
    activation="softmax",
  )


def objective(
  num_classes: int | None,
  class_weights: Sequence[float] | None = None,
  loss: LossFn | None = None,
) -> task.Objective:
  """Returns the objective for `num_classes` classes, or for numbers if None."""
  if num_classes is None:
    return number_objective(loss)
  return class_objective(class_weights, loss)


class _Loss(tf.keras.losses.Loss):
  """A loss function of labels and outputs, as a Keras loss."""

  def __init__(self, loss: LossFn) -> None:
    super().__init__()
    self._loss = loss


class _LossOfClasses(_Loss):
  """A loss function of class numbers and logits, as a Keras loss."""

  def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """Returns the loss of each example."""
    labels = tf.cast(y_true, tf.int32)
    if labels.shape.rank == y_pred.shape.rank:  # Keras may add an axis.
      labels = tf.squeeze(labels, -1)
    return self._loss(labels, y_pred)


@dataclasses.dataclass(frozen=True)
class _WeightedCrossEntropy:
  """Cross entropy from logits, weighted by each example's class."""

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


# Regression: the loss and the metric if labels are numbers.

_ABSOLUTE_ERROR = "mean_absolute_error"


def number_objective(loss: LossFn | None = None) -> task.Objective:
  """Returns the objective for regression: a loss, and the absolute error."""
  make_loss: Callable[[], tf.keras.losses.Loss] = _SquaredError
  if loss is not None:
    make_loss = functools.partial(_LossOfNumbers, loss)
  form = LossAndMetric(
    make_loss,
    _MeanAbsoluteError,
    _ABSOLUTE_ERROR,
    _add_absolute_errors,
  )
  return task.Objective(
    model_fn=form.model_fn, functional_model_fn=form.functional_if_dense
  )


def _mean_of_errors(
  of_error: Callable[[tf.Tensor], tf.Tensor],
  labels: tf.Tensor,
  outputs: tf.Tensor,
) -> tf.Tensor:
  """Returns the mean of `of_error` over each example's numbers, float32[n]."""
  if labels.shape.rank == 1:
    labels = tf.expand_dims(labels, -1)
  return tf.reduce_mean(of_error(outputs - labels), axis=-1)


def _add_absolute_errors(
  labels: tf.Tensor, outputs: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  errors = _mean_of_errors(tf.abs, labels, outputs)
  return tf.reduce_sum(errors), tf.cast(tf.size(errors), tf.float32)


class _LossOfNumbers(_Loss):
  """A loss function of numbers and predictions, as a Keras loss."""

  def call(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """Returns the loss of each example."""
    if labels.shape.rank == 1:
      outputs = tf.squeeze(outputs, -1)
    return self._loss(labels, outputs)


class _SquaredError(tf.keras.losses.Loss):
  """The mean of the squared errors of an example's numbers."""

  def call(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    return _mean_of_errors(tf.square, labels, outputs)


class _MeanAbsoluteError(tf.keras.metrics.MeanAbsoluteError):
  """The mean absolute error over examples.

  With labels of shape [n], Keras' own metric would average over batches.
  """

  def update_state(
    self,
    y_true: tf.Tensor,
    y_pred: tf.Tensor,
    sample_weight: tf.Tensor | None = None,
  ) -> tf.Operation:
    if y_true.shape.rank == 1:
      y_true = tf.expand_dims(y_true, -1)
    return super().update_state(y_true, y_pred, sample_weight)
