"""Describes a user's model, and runs it inside a computation.

`LocalModel` is the common interface of TFF's two classes of models. Trainable
weights are passed as a flat tuple of tensors, because `tf.data` would stack a
list. Before each use, they are assigned to the variables of a `VariableModel`;
a `FunctionalModel` takes them as arguments.
"""

import abc
import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared, keras_state
from tff_fair.client_works.batches import Batch
from tff_fair.client_works.tracing import graph_function, with_autograph
from tff_fair.types import TensorStructure

ModelFn: TypeAlias = (
  Callable[[], tff.learning.models.VariableModel]
  | tff.learning.models.FunctionalModel
)

_Returned = TypeVar("_Returned")

# A model's trainable weights, as a flat tuple.
Trainable: TypeAlias = tuple[tf.Tensor, ...]
# The gradients of a loss, one for each trainable weight; `None` if the loss
# does not depend on the weight.
Gradients: TypeAlias = Sequence[tf.Tensor | None]


class ForwardPass(NamedTuple):
  """The result of a forward pass over a batch."""

  loss: tf.Tensor  # float[], mean loss over the batch.
  predictions: Any
  num_examples: tf.Tensor  # int64[], examples in the batch.
  metrics: TensorStructure  # The state of the model's metrics after the batch.


class LocalModel(abc.ABC):
  """A model inside a computation; its methods run inside a `tf.function`."""

  @abc.abstractmethod
  def receive(self, weights: tff.learning.models.ModelWeights) -> None:
    """Sets the model's weights, including non-trainable ones."""

  @abc.abstractmethod
  def empty_metrics(self) -> TensorStructure:
    """Returns the state of the metrics before the first batch."""

  @abc.abstractmethod
  def forward(
    self,
    trainable: Trainable,
    metrics: TensorStructure,
    batch: Batch,
    *,
    training: bool,
  ) -> ForwardPass:
    """Runs the model on a batch and updates the metrics."""

  @abc.abstractmethod
  def watch(self, tape: tf.GradientTape, trainable: Trainable) -> Trainable:
    """Makes `tape` watch the weights; returns the watched tensors."""

  @abc.abstractmethod
  def unfinalized_metrics(self, metrics: TensorStructure) -> TensorStructure:
    """Returns the unfinalized metrics, which a client sends."""

  @abc.abstractmethod
  def finalized_metrics(
    self, metrics: TensorStructure
  ) -> Mapping[str, tf.Tensor]:
    """Returns the values of the metrics, by name."""

  def gradients(
    self,
    trainable: Trainable,
    metrics: TensorStructure,
    batch: Batch,
    *,
    training: bool,
    objective: Callable[[tf.Tensor], tf.Tensor] | None = None,
  ) -> tuple[Gradients, ForwardPass]:
    """Returns the gradients of a batch's mean loss, and the forward pass.

    With an `objective`, they are the gradients of `objective(loss)`.
    """
    with tf.GradientTape() as tape:
      watched = self.watch(tape, trainable)
      output = self.forward(trainable, metrics, batch, training=training)
      target = output.loss
      if objective is not None:
        target = with_autograph(objective)(target)
    gradients = tape.gradient(target, watched)
    return (
      tff.learning.optimizers.handle_indexed_slices_gradients(gradients),
      output,
    )


class _VariableLocalModel(LocalModel):
  """Runs a `tff.learning.models.VariableModel`, whose metrics are variables."""

  def __init__(self, model: tff.learning.models.VariableModel) -> None:
    self._model = model
    self._forward_pass = with_autograph(model.forward_pass)
    self._weights = tff.learning.models.ModelWeights.from_model(model)
    self._trainable = flatten(self._weights.trainable)

  def receive(self, weights: tff.learning.models.ModelWeights) -> None:
    tf.nest.map_structure(
      lambda variable, value: variable.assign(value), self._weights, weights
    )

  def empty_metrics(self) -> TensorStructure:
    self._model.reset_metrics()
    return ()

  def forward(
    self,
    trainable: Trainable,
    metrics: TensorStructure,
    batch: Batch,
    *,
    training: bool,
  ) -> ForwardPass:
    for variable, value in zip(self._trainable, trainable, strict=True):
      variable.assign(value)
    output = self._forward_pass(batch, training=training)
    return ForwardPass(
      output.loss,
      output.predictions,
      _num_examples(output.num_examples, output.predictions),
      metrics,
    )

  def watch(self, tape: tf.GradientTape, trainable: Trainable) -> Trainable:
    # A tape watches a trainable variable as soon as the variable is read.
    del tape, trainable
    return self._trainable

  def unfinalized_metrics(self, metrics: TensorStructure) -> TensorStructure:
    del metrics
    return self._model.report_local_unfinalized_metrics()

  def finalized_metrics(
    self, metrics: TensorStructure
  ) -> Mapping[str, tf.Tensor]:
    del metrics
    values = self._model.report_local_unfinalized_metrics()
    return {
      name: finalize(values[name])
      for name, finalize in self._model.metric_finalizers().items()
    }


class _FunctionalLocalModel(LocalModel):
  """Runs a `tff.learning.models.FunctionalModel`."""

  def __init__(self, model: tff.learning.models.FunctionalModel) -> None:
    self._model = model
    # A direct call of `model.loss` would run the user's function without
    # AutoGraph.
    self._loss = tf.function(model.loss)
    self._non_trainable: Sequence[tf.Tensor] = ()

  def receive(self, weights: tff.learning.models.ModelWeights) -> None:
    self._non_trainable = weights.non_trainable

  def empty_metrics(self) -> TensorStructure:
    return self._model.initialize_metrics_state()

  def forward(
    self,
    trainable: Trainable,
    metrics: TensorStructure,
    batch: Batch,
    *,
    training: bool,
  ) -> ForwardPass:
    x, y = (
      (batch["x"], batch["y"]) if isinstance(batch, Mapping) else tuple(batch)
    )
    predictions = self._model.predict_on_batch(
      (trainable, self._non_trainable), x, training=training
    )
    loss = self._loss(output=predictions, label=y)
    num_examples = _num_examples(None, predictions)
    metrics = self._model.update_metrics_state(
      metrics,
      batch_output=tff.learning.models.BatchOutput(
        loss=loss,
        predictions=predictions,
        num_examples=tf.cast(num_examples, tf.int32),
      ),
      labels=y,
    )
    return ForwardPass(loss, predictions, num_examples, metrics)

  def watch(self, tape: tf.GradientTape, trainable: Trainable) -> Trainable:
    tape.watch(trainable)
    return trainable

  def unfinalized_metrics(self, metrics: TensorStructure) -> TensorStructure:
    return metrics

  def finalized_metrics(
    self, metrics: TensorStructure
  ) -> Mapping[str, tf.Tensor]:
    return self._model.finalize_metrics(metrics)


def flatten(trainable: TensorStructure) -> Trainable:
  """Returns trainable weights as the flat tuple that a `LocalModel` takes."""
  return tuple(tf.nest.flatten(trainable))


def with_trainable(weights: Any, trainable: Any) -> Any:
  """Returns `weights` with the flat `trainable` as its trainable weights."""
  return tff.learning.models.ModelWeights(
    tf.nest.pack_sequence_as(weights.trainable, trainable),
    weights.non_trainable,
  )


def bind_model(
  model_fn: ModelFn, run: Callable[..., _Returned]
) -> Callable[..., _Returned]:
  """Returns a `tf.function` that calls `run` with a new model.

  `bind_model` must be called inside a computation. The returned function takes
  the arguments of `run` after the model: structures of tensors and datasets.
  """
  model = instantiate(model_fn)

  @graph_function
  def run_with_model(*arguments: Any) -> _Returned:
    return run(model, *arguments)

  return run_with_model


def instantiate(model_fn: ModelFn) -> LocalModel:
  """Returns a new model; must be called inside a computation."""
  if isinstance(model_fn, tff.learning.models.FunctionalModel):
    return _FunctionalLocalModel(model_fn)
  return _VariableLocalModel(model_fn())


def _num_examples(reported: tf.Tensor | None, predictions: Any) -> tf.Tensor:
  if reported is not None:
    return tf.cast(reported, tf.int64)
  return tf.shape(tf.nest.flatten(predictions)[0], out_type=tf.int64)[0]


class ModelInfo(NamedTuple):
  """The properties of a model that are known without running it."""

  model_fn: ModelFn
  weights_type: tff.StructType  # The type of the model's `ModelWeights`.
  batch_spec: TensorStructure  # The `tf.TensorSpec` of each tensor in a batch.
  initial_weights: tff.Computation
  # Runs inside a computation: maps the sum of the clients' unfinalized metrics
  # to the values of the metrics, by name.
  finalize_metrics: Callable[
    [Mapping[str, TensorStructure]], Mapping[str, tf.Tensor]
  ]


@keras_state.preserve()
def describe(model_fn: ModelFn) -> ModelInfo:
  """Describes a model; raises `TypeError` unless `model_fn` is a `ModelFn`."""
  if isinstance(model_fn, tff.learning.models.FunctionalModel):
    return _describe_functional(model_fn)
  is_keras = isinstance(model_fn, tf.keras.Model)  # Keras models are callable.
  if is_keras or not callable(model_fn):
    advice = (
      " Build the Keras model in a function, and have it return "
      "tff.learning.models.from_keras_model(model, ...)."
    )
    raise TypeError(
      "Expected `model_fn` to be a function that returns a "
      "tff.learning.models.VariableModel, or a "
      f"tff.learning.models.FunctionalModel, found {type(model_fn).__name__}."
      + advice
      * is_keras
    )
  # A separate graph keeps the variables out of the caller's graph.
  with tf.Graph().as_default():
    model = model_fn()
    if not isinstance(model, tff.learning.models.VariableModel):
      raise TypeError(
        "Expected `model_fn` to return a tff.learning.models.VariableModel, "
        f"found {type(model).__name__}. Wrap a Keras model with "
        "tff.learning.models.from_keras_model."
      )
    weights_type = tff.learning.models.weights_type_from_model(model)
    finalizers = model.metric_finalizers()
    batch_spec = model.input_spec

  def finalize_metrics(
    unfinalized: Mapping[str, TensorStructure],
  ) -> Mapping[str, tf.Tensor]:
    return collections.OrderedDict(
      (name, finalize(unfinalized[name]))
      for name, finalize in finalizers.items()
    )

  @tff.tensorflow.computation
  def initial_weights() -> tff.learning.models.ModelWeights:
    return tff.learning.models.ModelWeights.from_model(model_fn())

  return ModelInfo(
    model_fn, weights_type, batch_spec, initial_weights, finalize_metrics
  )


def describe_trainable(model_fn: ModelFn) -> ModelInfo:
  """Describes a model; raises `FieldError` if it has no trainable weights.

  Raises `TypeError` in the same cases as `describe`.
  """
  info = describe(model_fn)
  if not tff.structure.flatten(info.weights_type.trainable):
    raise declared.FieldError(
      "model_fn",
      "The model of `model_fn` has nothing to train: it has no trainable "
      "weights. Give it a layer with weights, and leave that layer's "
      "`trainable` at True.",
    )
  return info


def _describe_functional(
  model: tff.learning.models.FunctionalModel,
) -> ModelInfo:
  """Describes a functional model, as `describe` does."""
  trainable, non_trainable = model.initial_weights

  @tff.tensorflow.computation
  def initial_weights() -> tff.learning.models.ModelWeights:
    return tff.learning.models.ModelWeights(
      tuple(tf.constant(w) for w in trainable),
      tuple(tf.constant(w) for w in non_trainable),
    )

  return ModelInfo(
    model,
    initial_weights.type_signature.result,
    model.input_spec,
    initial_weights,
    model.finalize_metrics,
  )
