"""Checks that clients can train a user's Keras model.

They build the model and call it, instead of knowing its layers: whatever draws
at random or keeps a state shows.
"""

from __future__ import annotations

import typing
from typing import Any

import numpy as np
import tensorflow as tf

from tasks.models import seeds, shapes
from tasks.own.functions import UserCodeError

if typing.TYPE_CHECKING:
  from tasks.models.own import Make

_EXAMPLES = 4  # In the batch that tries a model.
_UNKNOWN_SIZE = 3  # Of an axis whose size differs between batches.
_TOLERANCE = 1e-5


def check(made: Make, *, is_classifier: bool) -> None:
  """Checks that clients can train a model; builds it, and calls it.

  Args:
    made: Makes the model.
    is_classifier: Whether its outputs are logits.

  Raises:
    UserCodeError: If they cannot.
  """
  model = made.unbuilt()
  if not isinstance(model, tf.keras.Model):
    raise UserCodeError(
      made.name,
      f"expected a tf.keras.Model, found {type(model).__name__}.",
    )
  if getattr(model, "optimizer", None) is not None:
    raise UserCodeError(
      made.name,
      "its model is compiled; leave compile() out: the task has the loss.",
    )
  _check_shapes(made, model)
  again = made()
  if again is model:
    raise UserCodeError(
      made.name, "returns the same model each time; build a new one."
    )
  if not again.trainable_weights:
    raise UserCodeError(
      made.name,
      "its model has nothing to train; give it a layer with weights, and leave "
      "that layer trainable.",
    )
  _check_calls(made, again, is_classifier=is_classifier)
  _check_weights(made, again)


def _check_shapes(made: Make, model: tf.keras.Model) -> None:
  wanted = made.wanted
  inputs = getattr(model, "inputs", None) or []
  if all(x.shape.is_compatible_with([None, *wanted.x]) for x in inputs):
    try:
      with seeds.seeded(0):
        outputs = model(tf.keras.Input(wanted.x, dtype=wanted.x_dtype))
    except (ValueError, TypeError, tf.errors.OpError) as error:
      raise UserCodeError(
        made.name,
        f"the task has {wanted}; the model takes no such x: {_line(error)}.",
      ) from error
    if _fits(outputs, wanted):
      return
  else:
    outputs = model.outputs
  takes = [shapes.as_text(x.shape[1:], x.dtype) for x in inputs]
  x = " and ".join(takes) or shapes.as_text(wanted.x, wanted.x_dtype)
  raise UserCodeError(
    made.name,
    f"the task has {wanted}; the model has x {x} and outputs "
    f"{_outputs(outputs)}.",
  )


def _fits(outputs: Any, wanted: shapes.Shapes) -> bool:
  return (
    tf.is_tensor(outputs)
    and outputs.dtype == tf.float32
    and outputs.shape.rank is not None
    and outputs.shape.is_compatible_with([None, *wanted.outputs])
  )


def _outputs(outputs: Any) -> str:
  found = [
    shapes.as_text(output.shape[1:], output.dtype)
    for output in tf.nest.flatten(outputs)
    if tf.is_tensor(output)
  ]
  return " and ".join(found) or f"a {type(outputs).__name__}"


def _check_weights(made: Make, model: tf.keras.Model) -> None:
  """Checks that a model has the same weights in a graph as outside of one.

  Keras cannot call models of before once it has built one in a graph.
  """
  with tf.Graph().as_default() as graph:
    tf.random.uniform([])  # TensorFlow's own seeds count the operations.
    built = made()
    with tf.compat.v1.Session(graph=graph) as session:
      session.run([weight.initializer for weight in built.weights])
      in_graph = session.run(built.weights)
  for weight, value in zip(model.weights, in_graph, strict=True):
    if not np.array_equal(weight.numpy(), value):
      raise UserCodeError(
        made.name,
        f"the initial values of {weight.name} differ from one building of the "
        "model to the next; give its initializer a seed.",
      )
  for weight in model.trainable_weights:
    if weight.dtype != tf.float32:
      raise UserCodeError(
        made.name,
        f"{weight.name} is {weight.dtype.name}; expected float32, as methods "
        "sum it.",
      )
    if weight.constraint is not None:
      raise UserCodeError(
        made.name,
        f"{weight.name} has a constraint, and TFF's optimizers apply none; "
        "leave it out, or take a regularizer.",
      )


def _check_calls(
  made: Make, model: tf.keras.Model, *, is_classifier: bool
) -> None:
  """Checks that a model gives the same in each call, and keeps nothing."""
  name, wanted = made.name, made.wanted
  if wanted.x_dtype == tf.string:
    return
  before = [weight.numpy() for weight in model.weights]
  x = _batch(wanted)
  try:
    outputs, again = (model(x, training=True).numpy() for _ in range(2))
  except Exception as error:
    raise UserCodeError(
      name, f"its model cannot be called in training: {_line(error)}."
    ) from error
  for weight, value in zip(model.weights, before, strict=True):
    if not np.array_equal(weight.numpy(), value):
      raise UserCodeError(
        name,
        f"{weight.name} changes while the model is called, and no method sums "
        "such a state; for BatchNormalization, take GroupNormalization or "
        "LayerNormalization.",
      )
  if not np.allclose(outputs, again, _TOLERANCE, _TOLERANCE, equal_nan=True):
    raise UserCodeError(
      name,
      "its outputs in training differ from one call to the next, and a run "
      "would not repeat; for Dropout(rate), take "
      "tasks.models.RepeatableDropout(rate, seed=seed).",
    )
  if is_classifier and _are_probabilities(outputs):
    raise UserCodeError(
      name,
      "its outputs are probabilities; the task's loss takes logits: leave the "
      "last softmax out.",
    )


def _are_probabilities(outputs: np.ndarray) -> bool:
  return bool((outputs >= 0).all()) and np.allclose(outputs.sum(-1), 1.0)


def _batch(wanted: shapes.Shapes) -> tf.Tensor:
  """Returns a batch that some input may be."""
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
