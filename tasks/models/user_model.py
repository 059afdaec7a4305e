"""Users' Keras models: checked, and always with the same initial weights.

TFF builds a model several times, in several graphs, and a client gets a new one
in each round. So a model must have the same weights wherever it is built, and
keep no state between batches. The checks build and call the model instead of
inspecting its layers; this reveals anything random or stateful.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tasks import task
from tasks.models import catalog, layers
from tasks.models.initial_weights import (
  SeededModelBuilder,
  last_layer,
  unwrap_user_model,
)
from tff_fair import keras_state, user_functions
from tff_fair.declared import FieldError


def build_fn(
  name: str,
  function: Callable[..., Any],
  element_spec: task.ElementSpec,
  num_classes: int | None,
  *,
  seed: int,
) -> task.KerasModelFn:
  """Returns a builder that calls a user's function to build a task's model."""
  wanted = catalog.required_shapes(element_spec, num_classes)
  given = {"input_shape": wanted.x, "num_classes": num_classes, "seed": seed}
  try:
    parameters = inspect.signature(function).parameters
  except (TypeError, ValueError) as error:
    raise FieldError(name, f"its arguments cannot be read: {error}.") from error
  for parameter in parameters.values():
    if parameter.name not in given and parameter.default is parameter.empty:
      raise FieldError(
        name,
        f"has the argument {parameter.name}; a model's function takes no "
        f"arguments, or any of {', '.join(given)}.",
      )
  chosen = {n: value for n, value in given.items() if n in parameters}
  builder = SeededModelBuilder(name, function, chosen, wanted, seed)
  _check(builder, is_classifier=num_classes is not None)
  return builder


def deterministic_build_fn(
  name: str,
  build: Callable[[], Any],
  element_spec: task.ElementSpec,
  num_classes: int | None,
  *,
  seed: int,
) -> task.KerasModelFn:
  """Returns a builder of a user's model with fixed initial weights."""
  wanted = catalog.required_shapes(element_spec, num_classes)
  builder = SeededModelBuilder(name, build, {}, wanted, seed)
  _check(builder, is_classifier=num_classes is not None)
  return builder


def check_loss(
  name: str,
  loss: Callable[[tf.Tensor, tf.Tensor], Any],
  y_spec: tf.TensorSpec,
  num_classes: int | None,
  file: pathlib.Path | None = None,
) -> None:
  """Checks that a user's loss gives each example a number and a gradient."""
  y = tf.zeros([_EXAMPLES, *y_spec.shape[1:]], y_spec.dtype)
  outputs = y if num_classes is None else tf.zeros([_EXAMPLES, num_classes])
  with tf.GradientTape() as tape:
    tape.watch(outputs)
    try:
      found = tf.convert_to_tensor(loss(y, outputs))
    except Exception as error:  # A user's code may raise anything.
      raise user_functions.user_code_error(name, file, error) from error
  if found.shape != [_EXAMPLES] or found.dtype != tf.float32:
    raise FieldError(
      name,
      f"for labels {y.dtype.name}{y.shape.as_list()} it returned "
      f"{found.dtype.name}{found.shape.as_list()}, expected "
      f"float32[{_EXAMPLES}], a loss for each.",
    )
  if tape.gradient(found, outputs) is None:
    raise FieldError(
      name,
      "it has no gradient: its value does not depend on the model's outputs, "
      "or only through functions that TensorFlow cannot differentiate.",
    )


_EXAMPLES = 4  # The number of examples in the batch that tests a model.
_UNKNOWN_SIZE = 3  # The batch's size along axes of unknown size.
_TOLERANCE = 1e-5


def _check(builder: SeededModelBuilder, *, is_classifier: bool) -> None:
  """Checks that clients can train a model.

  Weights that no initializer creates are fixed at their current values.
  """
  returned = builder.raw_model()
  if not isinstance(returned, tf.keras.Model):
    raise builder.error(
      f"expected a tf.keras.Model, found {type(returned).__name__}."
    )
  # Compares before `adapted_model` changes the last layer.
  if last_layer(builder.raw_model()) is last_layer(returned):
    raise builder.error("returns the same model each time; build a new one.")
  model = builder.adapted_model()
  was_built = model.built
  _check_shapes(builder, model)
  again = builder()
  if not again.trainable_weights:
    raise builder.error(
      "its model has nothing to train; give it a layer with weights, and leave "
      "that layer trainable."
    )
  _check_calls(builder, again, is_classifier=is_classifier)
  _check_weights(builder, again)
  if _has_given_weights(
    builder, again, model if was_built else builder.new_model()
  ):
    builder.fix_weights(again)
  elif _is_compiled(model):
    raise builder.error(
      "its model is compiled; leave compile() out: the task has the loss."
    )


def _check_shapes(builder: SeededModelBuilder, model: tf.keras.Model) -> None:
  wanted = builder.wanted
  inputs = getattr(model, "inputs", None) or []
  if len(inputs) < 2 and all(
    x.shape.is_compatible_with([None, *wanted.x]) for x in inputs
  ):
    try:
      with layers.seeded(0):
        outputs = model(tf.keras.Input(wanted.x, dtype=wanted.x_dtype))
    except (ValueError, TypeError, tf.errors.OpError) as error:
      raise builder.error(
        f"the task has {wanted}; the model takes no such x: {_line(error)}."
      ) from error
    if _fits(outputs, wanted):
      return
  else:
    outputs = model.outputs
  takes = [catalog.as_text(x.shape[1:], x.dtype) for x in inputs]
  x = " and ".join(takes) or catalog.as_text(wanted.x, wanted.x_dtype)
  advice = ""
  if wanted.are_two_classes:
    advice = (
      " One output is enough if the last layer of a sequential or functional "
      "model is a Dense(1) with a sigmoid or no activation."
    )
  raise builder.error(
    f"the task has {wanted}; the model has x {x} and outputs "
    f"{_outputs(outputs)}.{advice}"
  )


def _fits(outputs: Any, wanted: catalog.Shapes) -> bool:
  return (
    tf.is_tensor(outputs)
    and outputs.dtype == tf.float32
    and outputs.shape.rank is not None
    and outputs.shape.is_compatible_with([None, *wanted.outputs])
  )


def _outputs(outputs: Any) -> str:
  found = [
    catalog.as_text(output.shape[1:], output.dtype)
    for output in tf.nest.flatten(outputs)
    if tf.is_tensor(output)
  ]
  return " and ".join(found) or f"a {type(outputs).__name__}"


def _has_given_weights(
  builder: SeededModelBuilder, model: tf.keras.Model, again: tf.keras.Model
) -> bool:
  """Returns whether a model has weights that no initializer creates.

  Weights from an initializer are the same inside and outside of a graph. Other
  weights, such as trained ones, are the same for any seed. `again` is a second
  model, built outside of graphs, before any model in a graph.
  """
  values = [weight.numpy() for weight in model.weights]
  in_graph = _values_in_graph(builder)
  if in_graph is None:  # Keras can build some models only outside of graphs.
    is_open = [True] * len(values)
  else:
    is_open = _differ(values, in_graph)
    if not any(is_open) and not _is_compiled(model):
      return False
    again = builder.new_model(other_draws=True)
  differ = _differ(values, [weight.numpy() for weight in again.weights])
  for weight, differs in zip(
    model.weights, map(operator.and_, is_open, differ), strict=True
  ):
    if differs:
      raise builder.error(
        f"the initial values of {weight.name} differ each time the model is "
        "built; give its initializer a seed or, if the model is trained, load "
        "the same weights each time."
      )
  return any(is_open) or not any(differ)


def _is_compiled(model: tf.keras.Model) -> bool:
  return getattr(unwrap_user_model(model), "optimizer", None) is not None


def _differ(
  values: Sequence[np.ndarray], others: Sequence[np.ndarray]
) -> list[bool]:
  return [
    not np.array_equal(value, other)
    for value, other in zip(values, others, strict=True)
  ]


@keras_state.preserve()
def _values_in_graph(builder: SeededModelBuilder) -> list[np.ndarray] | None:
  """Returns the initial weights in a graph; None if the model has an error."""
  with tf.Graph().as_default() as graph:
    # Shifts the seeds that TensorFlow derives from the number of operations.
    tf.random.uniform([])
    try:
      built = builder()
    except FieldError:
      return None
    with tf.compat.v1.Session(graph=graph) as session:
      session.run([weight.initializer for weight in built.weights])
      found: list[np.ndarray] = session.run(built.weights)
  return found


def _check_weights(builder: SeededModelBuilder, model: tf.keras.Model) -> None:
  """Checks that methods can sum a model's weights."""
  for weight in model.trainable_weights:
    if weight.dtype != tf.float32:
      raise builder.error(
        f"{weight.name} is {weight.dtype.name}; expected float32, as methods "
        "sum it."
      )
    if weight.constraint is not None:
      raise builder.error(
        f"{weight.name} has a constraint, which TFF's optimizers do not apply; "
        "leave it out, or use a regularizer."
      )


def _check_calls(
  builder: SeededModelBuilder, model: tf.keras.Model, *, is_classifier: bool
) -> None:
  """Checks that a model's calls are repeatable and keep no state."""
  wanted = builder.wanted
  if wanted.x_dtype == tf.string:
    return
  before = [weight.numpy() for weight in model.weights]
  for weight, value in zip(model.weights, before, strict=True):
    if value.dtype.kind == "f" and not np.isfinite(value).all():
      raise builder.error(
        f"{weight.name} has initial values that are not finite; no client "
        "could train them."
      )
  x = _batch(wanted)
  try:
    outputs, again = (model(x, training=True).numpy() for _ in range(2))
  except Exception as error:
    raise builder.error(
      f"its model cannot be called in training: {_line(error)}."
    ) from error
  for weight, value in zip(model.weights, before, strict=True):
    if not np.array_equal(weight.numpy(), value):
      raise builder.error(
        f"{weight.name} changes while the model is called, and no method sums "
        "such a state; replace BatchNormalization with GroupNormalization or "
        "LayerNormalization."
      )
  if not np.allclose(outputs, again, _TOLERANCE, _TOLERANCE, equal_nan=True):
    raise builder.error(
      "its outputs in training differ from one call to the next, so a run "
      f"would not be reproducible; {_repeatable_replacement(model)}."
    )
  if not _adds_only_weight_losses(model, x):
    raise builder.error(
      "its layers add penalties on what they compute (activity_regularizer or "
      "add_loss), which TFF's models do not support. Penalize weights instead "
      "(kernel_regularizer), or put the term into the task's loss (loss=)."
    )
  are_shares = (outputs >= 0).all() and np.allclose(outputs.sum(-1), 1.0)
  if is_classifier and are_shares:
    raise builder.error(
      "its outputs are probabilities; the task's loss takes logits: leave the "
      "last softmax out, or in a trained model set model.layers[-1].activation "
      "= tf.keras.activations.linear."
    )


_DROPOUT = "RepeatableDropout(rate, seed=seed)"
_SPATIAL = "RepeatableDropout(rate, seed=seed, spatial=True)"
# The repeatable replacements for random Keras layers, from tasks.models.
_REPEATABLE = {
  "Dropout": _DROPOUT,
  "GaussianDropout": _DROPOUT,
  **{f"SpatialDropout{n}D": _SPATIAL for n in (1, 2, 3)},
  "AlphaDropout": "RepeatableAlphaDropout(rate, seed=seed)",
  "GaussianNoise": "RepeatableNoise(stddev, seed=seed)",
}


def _repeatable_replacement(model: tf.keras.Model) -> str:
  """Returns the replacement for a model's first random layer."""
  for layer in model.submodules:
    kind = type(layer).__name__
    if isinstance(layer, tf.keras.layers.RNN) and any(
      getattr(layer, name, 0.0) for name in ("dropout", "recurrent_dropout")
    ):
      return (
        f"leave dropout and recurrent_dropout of {layer.name} ({kind}) out, "
        f"and put tasks.models.{_DROPOUT} before it"
      )
    if kind in _REPEATABLE:
      return f"for {layer.name} ({kind}), take tasks.models.{_REPEATABLE[kind]}"
  return f"for Dropout(rate), take tasks.models.{_DROPOUT}"


def _adds_only_weight_losses(model: tf.keras.Model, x: tf.Tensor) -> bool:
  """Returns whether TFF can add the layers' penalties outside of the model."""

  def predict(x: tf.Tensor) -> tf.Tensor:
    return model(x, training=True)

  in_function = tf.function(predict)

  @tf.function
  def penalty(x: tf.Tensor) -> tf.Tensor:
    in_function(x)
    return tf.add_n([tf.zeros([]), *model.losses])

  with contextlib.suppress(Exception):  # Other checks report such errors.
    tf.function(predict).get_concrete_function(x)
    try:
      penalty.get_concrete_function(x)
    except Exception:
      return False
  return True


def _batch(wanted: catalog.Shapes) -> tf.Tensor:
  """Returns a batch of random inputs with the task's input shape and type."""
  sizes = [_UNKNOWN_SIZE if size is None else size for size in wanted.x]
  generator = np.random.default_rng(0)
  shape = [_EXAMPLES, *sizes]
  values = (
    generator.standard_normal(shape)
    if wanted.x_dtype.is_floating
    else generator.integers(0, 2, shape).astype(np.float64)
  )
  return tf.cast(values, wanted.x_dtype)


def _line(error: Exception) -> str:
  return " ".join(str(error).split()).rstrip(".")
