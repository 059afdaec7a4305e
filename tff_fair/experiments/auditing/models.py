"""Models from files, as functions from a task's inputs to outputs."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import tasks
from tff_fair.declared import FieldError
from tff_fair.experiments import keras_files

Columns = Mapping[str, np.ndarray]
_BATCH = 1024
_SIGNATURE = "serving_default"


class Model:
  """A trained model of the user.

  Attributes:
    name: How messages and pages call it.
    input_specs: Shapes and types of its inputs by name, the first dimension
      being that of the examples; None if the model does not tell them.
  """

  def __init__(
    self,
    name: str,
    input_specs: Mapping[str, tf.TensorSpec] | None,
    call: Callable[[Any], Any],
  ) -> None:
    self.name = name
    self.input_specs = input_specs
    self._call = call

  def takes_columns(self, task: tasks.Task) -> bool:
    """Returns whether it takes the raw columns of a task, and not its x."""
    return (
      task.preprocessing is not None
      and self.input_specs is not None
      and set(self.input_specs) == set(task.preprocessing.columns)
    )

  def check_fits(self, task: tasks.Task) -> None:
    """Checks that its input is that of a task.

    Raises:
      FieldError: If it is not; the text names both shapes.
    """
    if self.input_specs is None or self.takes_columns(task):
      return
    wanted = task.element_spec[0]
    if len(self.input_specs) != 1:
      names = ", ".join(self.input_specs)
      raise self._error(
        f"takes {len(self.input_specs)} inputs ({names}), and the task "
        f"{task.name} has one, x of shape {_shape(wanted)}."
      )
    (found,) = self.input_specs.values()
    if not found.shape.is_compatible_with(wanted.shape):
      raise self._error(
        f"takes inputs of shape {_shape(found)}, and x of the task {task.name} "
        f"has the shape {_shape(wanted)}; choose another model or task."
      )

  def outputs(self, x: np.ndarray | Columns) -> np.ndarray:
    """Returns its outputs, float64[n, ...].

    Args:
      x: Inputs of n examples, at least one: an array, or columns by name.

    Raises:
      FieldError: If the model does not take them, or gives several outputs.
    """
    count = len(next(iter(x.values())) if isinstance(x, Mapping) else x)
    parts = []
    for start in range(0, count, _BATCH):
      batch = slice(start, start + _BATCH)
      try:
        output = self._call(self._inputs(x, batch))
      except (ValueError, TypeError, tf.errors.OpError) as error:
        reason = " ".join(str(error).split())[:200]
        raise self._error(
          f"does not take the task's inputs: {reason}"
        ) from error
      if isinstance(output, Mapping) and len(output) == 1:
        (output,) = output.values()
      if not tf.is_tensor(output):
        raise self._error("gives several outputs; expected one.")
      parts.append(np.asarray(output, np.float64))
    return np.concatenate(parts)

  def _inputs(self, x: np.ndarray | Columns, batch: slice) -> Any:
    specs = self.input_specs or {}
    if isinstance(x, Mapping):
      return {
        name: tf.cast(values[batch], specs[name].dtype)
        if specs[name].dtype != tf.string
        else tf.constant(values[batch], tf.string)
        for name, values in x.items()
      }
    if not specs:
      return tf.constant(x[batch])
    ((_, spec),) = specs.items()
    return tf.cast(x[batch], spec.dtype)

  def _error(self, problem: str) -> FieldError:
    return FieldError("model", problem, value=self.name)


def of(model: object) -> Model:
  """Returns the model of a user, who gives a Keras model or its path.

  Args:
    model: A Keras model, a .keras or .h5 file, or the folder of a SavedModel.

  Raises:
    FieldError: If there is none, or it cannot be loaded.
  """
  if isinstance(model, tf.keras.Model):
    return _of_keras(model, model.name)
  if isinstance(model, str | os.PathLike):
    return _load(pathlib.Path(model))
  raise FieldError(
    "model",
    "expected a Keras model, or the path of one, found a "
    f"{type(model).__name__}.",
  )


def _load(path: pathlib.Path) -> Model:
  try:
    keras_files.check(path)
    if keras_files.has_signatures_alone(path):
      return _of_signature(_load_signatures(path), str(path))
    return _of_keras(keras_files.load(path), str(path))
  except FieldError:
    raise
  except ValueError as error:
    raise FieldError("model", str(error), value=str(path)) from error


def _load_signatures(path: pathlib.Path) -> Any:
  try:
    return tf.saved_model.load(str(path))
  # A file that is damaged or of something else raises anything.
  except Exception as error:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    raise ValueError(f"cannot be loaded as a SavedModel: {reason}.") from error


def _of_keras(model: tf.keras.Model, path: str) -> Model:
  specs = None
  if model.inputs:
    # The keys of a dictionary may differ from the names of its layers.
    named = (
      model.input.items()
      if isinstance(model.input, Mapping)
      else [(tensor.name, tensor) for tensor in model.inputs]
    )
    specs = {
      name: tf.TensorSpec(tensor.shape, tensor.dtype) for name, tensor in named
    }
  return Model(path, specs, lambda x: model(x, training=False))


def _of_signature(loaded: Any, name: str) -> Model:
  signature = loaded.signatures.get(_SIGNATURE)
  if signature is None:
    raise FieldError(
      "model", f"has no signature {_SIGNATURE}; export it with one.", value=name
    )
  specs = dict(signature.structured_input_signature[1])

  def call(x: Any) -> Any:
    if not isinstance(x, Mapping):
      x = {next(iter(specs)): x}
    return signature(**x)

  # The loaded object holds the variables of its signatures.
  call.loaded = loaded  # type: ignore[attr-defined]
  return Model(name, specs, call)


def _shape(spec: tf.TensorSpec) -> str:
  sizes = [
    "n" if k == 0 else str(s) for k, s in enumerate(spec.shape.as_list())
  ]
  return f"[{', '.join(sizes)}]"
