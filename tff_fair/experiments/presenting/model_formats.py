"""Writes models in the formats of exports.

- keras: a file in Keras' own format, for Python with TensorFlow.
- savedmodel: a folder in TensorFlow's SavedModel format, for model servers; it
  holds the code of layers that are not Keras' own.
- tflite: a TensorFlow Lite file, for phones and small devices.
"""

import contextlib
import dataclasses
import logging
import os
import pathlib
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tasks.models import exportable
from tff_fair.declared import FieldError
from tff_fair.experiments.presenting import export_paths
from tff_fair.experiments.runs import trained_model
from tff_fair.experiments.runs.model_files import PREDICTED_CLASS, PROBABILITIES
from tff_fair.experiments.runs.trained_model import BuildableModel

# A result of `training.predictions.choose_threshold`.
Threshold: TypeAlias = Mapping[str, Any]

# An exported model takes raw columns if the task preprocesses them, else x.
# For classification, it returns probabilities, not logits, and with a decision
# threshold also the class; for regression, it returns the predicted numbers.

_NUMBER = "number"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Predictor:
  """A Keras model to write, and the name of its output."""

  model: tf.keras.Model
  trained: tf.keras.Model  # The layer of `model` that has the trained weights.
  output: str

  @property
  def x(self) -> tf.Tensor:
    """The symbolic input of a model that takes x."""
    return self.model.inputs[0]

  @property
  def arguments(self) -> Mapping[str, str]:
    """The names of an exported model's inputs, by column."""
    return {column: x.name for column, x in self.model.input.items()}

  @property
  def takes_columns(self) -> bool:
    """Whether the model's inputs are raw columns instead of x."""
    return isinstance(self.model.input, Mapping)

  @property
  def decides(self) -> bool:
    """Whether the model has a decision threshold, and so returns classes."""
    return isinstance(self.model.output, Mapping)

  def assign(self, weights: Sequence[np.ndarray]) -> None:
    """Assigns weights to the model; see `trained_model.assign`."""
    trained_model.assign(self.trained, weights)


def _build(found: BuildableModel, threshold: Threshold | None) -> Predictor:
  if found.build_with_preprocessing is None:
    return _build_of_x(found, threshold)
  model, trained = found.build_with_preprocessing()
  return _predictor(found, model, trained, threshold)


def _build_of_x(
  found: BuildableModel,
  threshold: Threshold | None,
  *,
  fixed_shape: bool = False,
  batch_size: int | None = None,
) -> Predictor:
  """Builds a run's model with the input x, without the trained weights."""
  described = found.architecture
  trained = found.build()
  shape = described.x_shape if fixed_shape else trained.input_shape[1:]
  x = tf.keras.Input(shape, batch_size, dtype=described.x_dtype, name="x")
  last = tf.keras.layers.Activation(described.activation, name=_output(found))
  model = tf.keras.Model(x, last(trained(x)))
  return _predictor(found, model, trained, threshold)


def _output(found: BuildableModel) -> str:
  is_number = found.architecture.num_classes is None
  return _NUMBER if is_number else PROBABILITIES


def _predictor(
  found: BuildableModel,
  model: tf.keras.Model,
  trained: tf.keras.Model,
  threshold: Threshold | None,
) -> Predictor:
  if threshold is not None:
    model = _with_predicted_class(model, threshold)
  return Predictor(model=model, trained=trained, output=_output(found))


def _with_predicted_class(
  model: tf.keras.Model, threshold: Threshold
) -> tf.keras.Model:
  """Returns a model that also outputs the class that `threshold` selects."""
  positive, least = threshold["class_number"], threshold["probability"]
  of_positive = model.output[:, positive]
  is_second = of_positive >= least if positive == 1 else of_positive < least
  last = tf.keras.layers.Activation("linear", name=PREDICTED_CLASS)
  return tf.keras.Model(
    model.input,
    {
      PROBABILITIES: model.output,
      PREDICTED_CLASS: last(tf.cast(is_second, "int64")),
    },
  )


_NO_COLUMNS = (
  "TensorFlow Lite cannot take the raw columns of this model. The file takes "
  "x, the columns as the task encodes them. The formats keras and savedmodel "
  "take the columns."
)
_ONE_EXAMPLE = "The file takes one example at a time."
_STDERR = 2  # The file descriptor of standard error.
_OPERATION = re.compile(r"'tf\.(\w+)'")


class Writer:
  """Writes the same model with different weights, one file per call."""

  def __init__(
    self, found: BuildableModel, format: str, threshold: Threshold | None = None
  ) -> None:
    self._found = found
    self._threshold = threshold
    self.format = format
    self.notes: tuple[str, ...] = ()
    self.predictor = _build(found, threshold)
    if format == export_paths.KERAS:
      _check_plain(self.predictor.model)

  def write(self, weights: Sequence[np.ndarray], path: pathlib.Path) -> None:
    """Writes the model with the given weights to a path."""
    self.predictor.assign(weights)
    model = self.predictor.model
    with _silencing_tensorflow():
      if self.format == export_paths.KERAS:
        model.save(path, save_format="keras")
      elif self.format == export_paths.SAVED_MODEL:
        model.save(path, save_format="tf", include_optimizer=False)
      else:
        path.write_bytes(self._to_tflite(weights))

  def _to_tflite(self, weights: Sequence[np.ndarray]) -> bytes:
    """Converts the model; omits its preprocessing if TFLite cannot run it."""
    if self.predictor.takes_columns:
      with contextlib.suppress(_NoOperationError):
        return _convert(self.predictor.model)
    for batch_size, notes in {None: (), 1: (_ONE_EXAMPLE,)}.items():
      takes_columns = self._found.build_with_preprocessing is not None
      self.notes = ((_NO_COLUMNS,) if takes_columns else ()) + notes
      self.predictor = _build_of_x(
        self._found, self._threshold, fixed_shape=True, batch_size=batch_size
      )
      self.predictor.assign(weights)
      try:
        return _convert(self.predictor.model)
      except _NoOperationError as error:
        missing = error
    raise FieldError(
      "format",
      f"is not possible for this model: TensorFlow Lite lacks {missing}; "
      f"{export_paths.SAVED_MODEL} takes every model.",
      value=self.format,
    )


class _NoOperationError(Exception):
  """TensorFlow Lite lacks the operations that the message names."""


def _check_plain(model: tf.keras.Model) -> None:
  try:
    exportable.build(exportable.config_of(model))
  except exportable.NotExportableError as error:
    raise FieldError(
      "format",
      f"is not possible for this model: it has parts that are not Keras' own "
      f"({error}); {export_paths.SAVED_MODEL} takes every model.",
      value=export_paths.KERAS,
    ) from error


def _convert(model: tf.keras.Model) -> bytes:
  converter = tf.lite.TFLiteConverter.from_keras_model(model)
  try:
    with _silencing_stderr():
      converted: bytes = converter.convert()
  except Exception as error:  # The converter raises no specific class.
    operations = sorted(set(_OPERATION.findall(str(error))))
    words = " and ".join(operations) or "some operation"
    raise _NoOperationError(words) from error
  return converted


@contextlib.contextmanager
def _silencing_stderr() -> Iterator[None]:
  """Keeps the converter's native code from writing pages of errors."""
  sys.stderr.flush()
  copy = os.dup(_STDERR)
  try:
    with open(os.devnull, "wb") as nothing:
      os.dup2(nothing.fileno(), _STDERR)
    yield
  finally:
    os.dup2(copy, _STDERR)
    os.close(copy)


@contextlib.contextmanager
def _silencing_tensorflow() -> Iterator[None]:
  """Keeps TensorFlow from logging each file and function that it writes."""
  loggers = [tf.get_logger(), logging.getLogger("absl")]
  levels = [logger.level for logger in loggers]
  for logger in loggers:
    logger.setLevel(logging.ERROR)
  try:
    yield
  finally:
    for logger, level in zip(loggers, levels, strict=True):
      logger.setLevel(level)
