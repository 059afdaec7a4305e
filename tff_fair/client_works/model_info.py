"""The facts about a model that need no run of it."""

import collections
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared
from tff_fair.client_works.local_model import ModelFn
from tff_fair.types import TensorStructure


class ModelInfo(NamedTuple):
  """The facts about a model that need no run of it.

  Attributes:
    weights_type: The type of its `tff.learning.models.ModelWeights`.
    batch_spec: Structure of `tf.TensorSpec` of a batch.
    initial_weights: `tff.Computation` that returns the weights to start from.
    finalize_metrics: Function from the sum of the clients' unfinalized metrics
      to finalized ones, for use inside a computation.
  """

  weights_type: tff.StructType
  batch_spec: TensorStructure
  initial_weights: tff.Computation
  finalize_metrics: Callable[
    [Mapping[str, TensorStructure]], Mapping[str, tf.Tensor]
  ]


def describe(model_fn: ModelFn) -> ModelInfo:
  """Returns the types of a model and the computations that go with it.

  Args:
    model_fn: Function that returns a new `VariableModel`, or a
      `FunctionalModel`.

  Raises:
    TypeError: If it is neither.
  """
  if isinstance(model_fn, tff.learning.models.FunctionalModel):
    return _describe_functional(model_fn)
  is_keras = isinstance(model_fn, tf.keras.Model)  # It can be called, too.
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
  # A graph of its own keeps the variables out of the caller's.
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

  return ModelInfo(weights_type, batch_spec, initial_weights, finalize_metrics)


def describe_trainable(model_fn: ModelFn) -> ModelInfo:
  """Returns the same, of a model that is to be trained.

  Args:
    model_fn: As `describe` takes it.

  Raises:
    TypeError: If it is no such function or model.
    FieldError: If the model has nothing to train; a `ValueError`.
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
  """Returns the types of a functional model."""
  trainable, non_trainable = model.initial_weights

  @tff.tensorflow.computation
  def initial_weights() -> tff.learning.models.ModelWeights:
    return tff.learning.models.ModelWeights(
      tuple(tf.constant(w) for w in trainable),
      tuple(tf.constant(w) for w in non_trainable),
    )

  return ModelInfo(
    initial_weights.type_signature.result,
    model.input_spec,
    initial_weights,
    model.finalize_metrics,
  )
