"""The TFF forms of Keras models: classifiers, and those that predict numbers.

A `FunctionalModel` keeps weights and metrics in tensors, where a Keras model
assigns variables in every local step. In networks of dense layers, this is most
of a step's cost other than arithmetic (docs/measurements.md).
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
# By name: a tensor, or a mean that is not finished.
_Metrics = collections.OrderedDict[str, tf.Tensor]

# Without AutoGraph, which takes time and finds nothing to convert.
_graph_function = functools.partial(tf.function, autograph=False)

Count = Callable[[tf.Tensor, tf.Tensor], _Mean]


def variable_model_fn(
  build: task.KerasModelFn,
  element_spec: task.ElementSpec,
  *,
  loss: Callable[[], tf.keras.losses.Loss],
  metric: Callable[[], tf.keras.metrics.Metric],
) -> task.ModelFn:
  """Returns a function that makes a new `VariableModel` of a Keras model."""

  def build_model() -> tff.learning.models.VariableModel:
    return tff.learning.models.from_keras_model(
      build(), loss=loss(), input_spec=element_spec, metrics=[metric()]
    )

  return build_model


@dataclasses.dataclass(frozen=True)
class Form:
  """A loss and a metric, a mean, of TFF's forms of a Keras model."""

  loss: Callable[[], tf.keras.losses.Loss]  # The mean over a batch.
  metric: Callable[[str], tf.keras.metrics.Metric]  # Takes its name.
  metric_name: str
  # From labels and predictions of a batch to the sum and the weight, float32[]
  # each, that it adds to the metric.
  count: Count

  def model_fn(
    self, build: task.KerasModelFn, element_spec: task.ElementSpec
  ) -> task.ModelFn:
    """Returns a function that makes a new `VariableModel`."""
    metric = functools.partial(self.metric, self.metric_name)
    return variable_model_fn(build, element_spec, loss=self.loss, metric=metric)

  @keras_state.restored()
  def functional_model(
    self, build: task.KerasModelFn, element_spec: task.ElementSpec
  ) -> tff.learning.models.FunctionalModel:
    """Returns a `FunctionalModel` with the metrics of the `VariableModel`.

    The layers must do without state: outputs depend on weights and inputs
    alone, and all weights are trained.
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
    """Returns the functional form of networks of dense layers, else None:
    convolutions train as fast in Keras models.
    """
    return dense.functional_if_dense(
      build, functools.partial(self.functional_model, build, element_spec)
    )

  def functional(
    self, build: task.KerasModelFn, element_spec: task.ElementSpec
  ) -> task.FunctionalModelFn:
    """Returns the functional form of any network."""
    return functools.cache(
      functools.partial(self.functional_model, build, element_spec)
    )


def _metrics_fns(
  metric: str, count: Count
) -> tuple[Callable[..., _Metrics], ...]:
  """Returns how metrics begin, how a batch adds to them, and how they end."""

  @_graph_function
  def initialize() -> _Metrics:
    nothing = (tf.constant(0.0), tf.constant(0.0))
    zero = tf.constant(0, tf.int64)
    return _by_name(metric, nothing, nothing, zero, zero)

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
    return _by_name(
      metric,
      _add(state[metric], counted),
      _add(state["loss"], (size * batch_output.loss, size)),
      state["num_examples"] + num_examples,
      state["num_batches"] + 1,
    )

  @_graph_function
  def finalize(state: _Metrics) -> _Metrics:
    return _by_name(
      metric,
      tf.math.divide_no_nan(*state[metric]),
      tf.math.divide_no_nan(*state["loss"]),
      state["num_examples"],
      state["num_batches"],
    )

  return initialize, update, finalize


def _by_name(
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


_ACCURACY = "sparse_categorical_accuracy"
_cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy

# Maps class numbers, int32[n], and logits, float32[n, C], or numbers and what
# the model predicts, float32[n] or float32[n, t] both, to losses, float32[n].
LossFn = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def class_objective(
  class_weights: Sequence[float] | None = None, loss: LossFn | None = None
) -> task.Objective:
  """Returns the objective of classifiers: a loss, and accuracy."""
  if loss is None and class_weights is not None:
    loss = _Weighted(tuple(map(float, class_weights)))
  form = _of_classes(loss)
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
  """Returns the objective of `num_classes` classes; None stands for numbers."""
  if num_classes is None:
    return number_objective(loss)
  return class_objective(class_weights, loss)


def functional_model(
  build: task.KerasModelFn,
  element_spec: task.ElementSpec,
  loss: LossFn | None = None,
) -> tff.learning.models.FunctionalModel:
  """Returns a classifier as a `FunctionalModel`."""
  return _of_classes(loss).functional_model(build, element_spec)


def _of_classes(loss: LossFn | None) -> Form:
  return Form(
    functools.partial(_cross_entropy, from_logits=True)
    if loss is None
    else functools.partial(_LossOfClasses, loss),
    tf.keras.metrics.SparseCategoricalAccuracy,
    _ACCURACY,
    _count_hits,
  )


class _Loss(tf.keras.losses.Loss):
  """A loss function of labels and outputs, in the form that Keras takes."""

  def __init__(self, loss: LossFn) -> None:
    super().__init__()
    self._loss = loss


class _LossOfClasses(_Loss):
  """A function of class numbers and logits."""

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


# Numbers: the mean squared error, in the units that the task gives its labels.

_ABSOLUTE_ERROR = "mean_absolute_error"


def number_objective(loss: LossFn | None = None) -> task.Objective:
  """Returns the objective of regressions: a loss, and the absolute error."""
  make_loss: Callable[[], tf.keras.losses.Loss] = _SquaredError
  if loss is not None:
    make_loss = functools.partial(_LossOfNumbers, loss)
  form = Form(
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
  """Returns the mean over an example's numbers of what `of_error` gives,
  float32[n]; labels are float32[n] or [n, t], outputs [n, 1] or [n, t].
  """
  if labels.shape.rank == 1:
    labels = tf.expand_dims(labels, -1)
  return tf.reduce_mean(of_error(outputs - labels), axis=-1)


def _add_absolute_errors(
  labels: tf.Tensor, outputs: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  errors = _mean_of_errors(tf.abs, labels, outputs)
  return tf.reduce_sum(errors), tf.cast(tf.size(errors), tf.float32)


class _LossOfNumbers(_Loss):
  """A function of numbers and predictions."""

  def call(self, labels: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
    """Returns the loss of each example."""
    if labels.shape.rank == 1:
      outputs = tf.squeeze(outputs, -1)
    return self._loss(labels, outputs)


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
