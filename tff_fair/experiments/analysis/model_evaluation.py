"""Evaluates a user's model on a task's clients for an audit, without TFF."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import tensorflow as tf
from scipy import special

import tasks
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import audit_table
from tff_fair.experiments.runs import model_files
from tff_fair.experiments.spec.scores import ACCURACY, RMSE

Split = Literal["test", "train", "all"]
Outputs = Literal["auto", "probabilities", "logits"]
SPLITS: tuple[str, ...] = get_args(Split)
OUTPUTS: tuple[str, ...] = get_args(Outputs)

Columns = Mapping[str, np.ndarray]  # Raw columns by name.

_EXAMPLES_PER_CALL = 8192
_BATCH = 1024
_SIGNATURE = "serving_default"
_SUM_SLACK = 1e-3  # Sums of float16 probabilities may differ from 1 by this.


class Predictions(NamedTuple):
  """A model's outputs for n examples, float64[n, ...], and classes or None."""

  outputs: np.ndarray
  classes: np.ndarray | None


class _Part(NamedTuple):
  sizes: np.ndarray
  x: np.ndarray | Columns
  y: np.ndarray


class ClientOutputs(NamedTuple):
  """A model's outputs for the n examples of a client; C is the class count."""

  labels: np.ndarray  # For regression, in the label's own units.
  # Logits or log probabilities, float64[n, C]; for regression, predictions with
  # the shape and units of `labels`.
  outputs: np.ndarray
  ranking: np.ndarray  # float64[n, C]: larger for more probable classes.
  classes: np.ndarray | None  # int64[n], if the model returns classes.
  groups: np.ndarray | None  # int[n], if the task has groups of people.

  def decision_outputs(self) -> np.ndarray:
    """Returns outputs that are largest for the class that the model returns."""
    if self.classes is None:
      return self.outputs
    return np.log(np.eye(self.outputs.shape[1])[self.classes] + _TINY)


def evaluate(
  model: Model,
  task: tasks.Task,
  *,
  split: Split = "test",
  outputs: Outputs = "auto",
) -> tuple[pd.DataFrame, list[ClientOutputs]]:
  """Returns a table of scores with a row per client, and clients' outputs."""
  _check_labels(task)
  model.check_fits(task)
  raw = model.takes_columns(task)
  measure: _ClassificationScorer | _RegressionScorer
  if task.num_classes is None:
    # Labels that are loaded with raw columns are not scaled.
    measure = _RegressionScorer(model, 1.0 if raw else task.label_scale)
  else:
    measure = _ClassificationScorer(model, task.num_classes, outputs)
  rows: list[pd.DataFrame] = []
  gathered: list[ClientOutputs] = []
  for part in _parts(task, split, model, raw=raw):
    found = model.predict(part.x)
    if not np.isfinite(found.outputs).all():
      raise model.error("gives numbers that are not finite.")
    columns, of_examples = measure.score_clients(found, part)
    rows.append(pd.DataFrame(columns))
    gathered += _by_client(of_examples, part)
  for k, client in enumerate(gathered):
    groups = [h.groups(k) for h in _halves(task, split) if h.groups]
    if groups:
      gathered[k] = client._replace(groups=np.concatenate(groups))
  table = pd.concat(rows, ignore_index=True)
  table.insert(0, audit_table.CLIENT, list(task.client_names))
  return table, gathered


def _by_client(found: ClientOutputs, part: _Part) -> list[ClientOutputs]:
  ends = np.cumsum(part.sizes)[:-1]
  columns = [
    [None] * len(part.sizes) if array is None else np.split(array, ends)
    for array in found
  ]
  return [ClientOutputs(*arrays) for arrays in zip(*columns, strict=True)]


_TINY = np.finfo(np.float64).eps  # scikit-learn's least probability.


def _halves(task: tasks.Task, split: Split) -> list[tasks.Split]:
  return {
    "test": [task.test],
    "train": [task.train],
    "all": [task.train, task.test],
  }[split]


def _check_labels(task: tasks.Task) -> None:
  if task.num_classes is None or task.has_class_labels:
    return
  raise FieldError(
    "task",
    "has several labels for an example; an audit takes one class, or one "
    "number or several. Evaluate the model elsewhere, and audit the results.",
    value=task.name,
  )


def _parts(
  task: tasks.Task, split: Split, model: Model, *, raw: bool
) -> Iterator[_Part]:
  """Yields the data of several clients at a time, in the order of their ids."""
  halves = _halves(task, split)
  gathered: list[tuple[Columns | np.ndarray, np.ndarray]] = []
  sizes: list[int] = []
  for client_id in range(task.num_clients):
    loaded = [_load(half, client_id, model, raw=raw) for half in halves]
    gathered += loaded
    sizes.append(sum(len(y) for _, y in loaded))
    is_last = client_id == task.num_clients - 1
    if sum(sizes) >= _EXAMPLES_PER_CALL or is_last:
      x, y = zip(*gathered, strict=True)
      yield _Part(np.array(sizes), _joined(x), np.concatenate(y))
      gathered, sizes = [], []


def _load(
  half: tasks.Split, client_id: int, model: Model, *, raw: bool
) -> tuple[Columns | np.ndarray, np.ndarray]:
  if not raw:
    return half.load(client_id)
  if half.raw is None:
    raise model.error(
      "takes raw columns, which the task does not provide; audit a model that "
      "takes x."
    )
  return half.raw(client_id)


def _joined(parts: tuple[Columns | np.ndarray, ...]) -> Columns | np.ndarray:
  first = parts[0]
  if isinstance(first, Mapping):
    return {
      name: np.concatenate([part[name] for part in parts]) for name in first
    }
  return np.concatenate(parts)  # type: ignore[arg-type]


@dataclasses.dataclass
class _ClassificationScorer:
  """Computes a classifier's accuracy and cross entropy at each client."""

  model: Model
  num_classes: int
  outputs: Outputs

  def score_clients(
    self, found: Predictions, part: _Part
  ) -> tuple[dict[str, np.ndarray], ClientOutputs]:
    """Returns columns of scores, one entry per client, and all outputs."""
    outputs, labels = self.class_outputs(found.outputs), part.y.astype(np.int64)
    at_label = np.take_along_axis(outputs, labels[:, None], 1)[:, 0]
    if self.outputs == "probabilities":
      # Like Keras, clip probabilities so that losses stay finite.
      losses = -np.log(np.clip(at_label, 1e-7, 1))
      logits, ranking = np.log(np.clip(outputs, _TINY, 1)), outputs
    else:
      losses = special.logsumexp(outputs, axis=1) - at_label
      logits, ranking = outputs, special.softmax(outputs, axis=1)
      if outputs.shape[1] == 2:  # Unlike softmax, differences do not saturate.
        ranking = outputs - outputs[:, ::-1]
    decided = outputs.argmax(1) if found.classes is None else found.classes
    correct = _sums(decided == labels, part.sizes)
    rows = {
      audit_table.COUNT: part.sizes,
      audit_table.CORRECT: correct.astype(np.int64),
      ACCURACY.name: correct / part.sizes,
      audit_table.LOSS.name: _sums(losses, part.sizes) / part.sizes,
    }
    return rows, ClientOutputs(labels, logits, ranking, found.classes, None)

  def class_outputs(self, outputs: np.ndarray) -> np.ndarray:
    """Checks outputs; returns probabilities or logits, float64[n, classes]."""
    if outputs.ndim == 1:
      outputs = outputs[:, None]
    is_single = self.num_classes == 2 and outputs.shape[1:] == (1,)
    if not is_single and outputs.shape[1:] != (self.num_classes,):
      raise self.model.error(
        f"gives outputs of shape {_shape(outputs.shape)}, but the task has "
        f"{self.num_classes} classes; expected [n, {self.num_classes}]."
      )
    are_probabilities = _are_probabilities(outputs, is_single=is_single)
    if self.outputs == "auto":
      # The first clients' outputs decide for all clients.
      self.outputs = "probabilities" if are_probabilities else "logits"
    if self.outputs == "probabilities" and not are_probabilities:
      raise FieldError(
        "outputs",
        f"the outputs of {self.model.name} do not sum to 1 for each example; "
        "are they logits?",
        value=self.outputs,
      )
    if not is_single:
      return outputs
    # A single output is that of the second class.
    if self.outputs == "probabilities":
      return np.concatenate([1 - outputs, outputs], 1)
    return np.concatenate([np.zeros_like(outputs), outputs], 1)


@dataclasses.dataclass
class _RegressionScorer:
  """Computes the RMSE and R² of a regression model at each client."""

  model: Model
  scale: float

  def score_clients(
    self, found: Predictions, part: _Part
  ) -> tuple[dict[str, np.ndarray], ClientOutputs]:
    """Returns columns of scores, one entry per client, and all outputs."""
    outputs = found.outputs
    labels = part.y.astype(np.float64).reshape(len(part.y), -1)
    number = labels.shape[1]
    if outputs.reshape(len(outputs), -1).shape[1] != number or outputs.ndim > 2:
      what = "is a number" if number == 1 else f"has {number} numbers"
      raise self.model.error(
        f"gives outputs of shape {_shape(outputs.shape)}, but the label of the "
        f"task {what}; expected [n, {number}]."
      )
    squared = (outputs.reshape(labels.shape) - labels) ** 2
    squares = _sums(squared.sum(1), part.sizes)
    # Each component of the label has its own mean.
    means = np.stack([_sums(column, part.sizes) for column in labels.T], 1)
    deviations = labels - np.repeat(
      means / part.sizes[:, None], part.sizes, axis=0
    )
    total = _sums((deviations**2).sum(1), part.sizes)
    varies = total > 0
    rows = {
      audit_table.COUNT: part.sizes,
      RMSE.name: self.scale * np.sqrt(squares / (part.sizes * number)),
      audit_table.R2: np.where(
        varies, 1 - squares / np.where(varies, total, 1), np.nan
      ),
    }
    values = self.scale * outputs.reshape(part.y.shape)
    in_units = self.scale * part.y.astype(np.float64)
    return rows, ClientOutputs(in_units, values, values, None, None)


def _are_probabilities(outputs: np.ndarray, *, is_single: bool) -> bool:
  in_range = (outputs >= 0) & (outputs <= 1 + _SUM_SLACK)
  sums = np.ones(1) if is_single else outputs.sum(1)
  return bool(in_range.all() and (np.abs(sums - 1) <= _SUM_SLACK).all())


def _sums(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
  """Returns the sums of `values` over each client's examples."""
  clients = np.repeat(np.arange(sizes.size), sizes)
  return np.bincount(clients, values, sizes.size)


@dataclasses.dataclass(frozen=True)
class Model:
  """A user's trained model."""

  name: str
  input_specs: Mapping[str, tf.TensorSpec] | None  # By name; None if unknown.
  call: Callable[[Any], Any]
  outputs: object  # A mapping if the model has several outputs.

  @property
  def decides(self) -> bool:
    """Whether the model also returns classes, as exports with thresholds do."""
    return (
      isinstance(self.outputs, Mapping)
      and model_files.PREDICTED_CLASS in self.outputs
    )

  def takes_columns(self, task: tasks.Task) -> bool:
    """Returns whether the model takes a task's raw columns instead of x."""
    return (
      task.preprocessing is not None
      and self.input_specs is not None
      and set(self.input_specs) == set(task.preprocessing.columns)
    )

  def check_fits(self, task: tasks.Task) -> None:
    """Raises a `FieldError` unless the model takes the inputs of a task."""
    if self.input_specs is None or self.takes_columns(task):
      return
    wanted = task.element_spec[0]
    if len(self.input_specs) != 1:
      names = ", ".join(self.input_specs)
      raise self.error(
        f"takes {len(self.input_specs)} inputs ({names}), but the task "
        f"{task.name} has one, x of shape {_shape(wanted.shape)}."
      )
    (found,) = self.input_specs.values()
    if not found.shape.is_compatible_with(wanted.shape):
      raise self.error(
        f"takes inputs of shape {_shape(found.shape)}, but x of the task "
        f"{task.name} has the shape {_shape(wanted.shape)}; choose another "
        "model or task."
      )

  def predict(self, x: np.ndarray | Columns) -> Predictions:
    """Returns the model's predictions for the examples `x`."""
    count = len(next(iter(x.values())) if isinstance(x, Mapping) else x)
    parts = []
    for start in range(0, count, _BATCH):
      batch = slice(start, start + _BATCH)
      try:
        output = self.call(self._inputs(x, batch))
      except (ValueError, TypeError, tf.errors.OpError) as error:
        reason = " ".join(str(error).split())[:200]
        raise self.error(
          f"does not take the task's inputs: {reason}"
        ) from error
      parts.append(self._parse_output(output))
    outputs, classes = zip(*parts, strict=True)
    return Predictions(
      np.concatenate(outputs),
      None if classes[0] is None else np.concatenate(classes),
    )

  def _parse_output(self, output: Any) -> Predictions:
    """Splits the result of a call into outputs and, if any, classes."""
    classes = None
    if isinstance(output, Mapping):
      others = dict(output)
      classes = others.pop(model_files.PREDICTED_CLASS, None)
      if len(others) == 1:
        (output,) = others.values()
    if not tf.is_tensor(output):
      raise self.error("gives several outputs; expected one.")
    return Predictions(
      np.asarray(output, np.float64),
      None if classes is None else np.asarray(classes, np.int64),
    )

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

  def error(self, problem: str) -> FieldError:
    """Returns a `FieldError` that names the model and states `problem`."""
    return FieldError("model", problem, value=self.name)


def read_model(model: object, *, trust: bool = False) -> Model:
  """Returns the `Model` for a user's Keras model or for the path of a model."""
  if isinstance(model, tf.keras.Model):
    return _of_keras(model, model.name)
  if isinstance(model, str | os.PathLike):
    return _from_path(pathlib.Path(model), trust)
  raise FieldError(
    "model",
    "expected a Keras model, or the path of one, found a "
    f"{type(model).__name__}.",
  )


def _from_path(path: pathlib.Path, trust: bool) -> Model:
  try:
    model_files.check(path)
    if model_files.has_only_signatures(path):
      if not trust:
        model_files.check_code(path)
      return _of_signature(_load_signatures(path), str(path))
    return _of_keras(model_files.load_model(path, trust=trust), str(path))
  except FieldError:
    raise
  except ValueError as error:
    raise FieldError("model", str(error), value=str(path)) from error


def _load_signatures(path: pathlib.Path) -> Any:
  try:
    return tf.saved_model.load(str(path))
  # A damaged file, or one that is not a model, may raise any error.
  except Exception as error:
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    raise ValueError(f"cannot be loaded as a SavedModel: {reason}.") from error


def _of_keras(model: tf.keras.Model, path: str) -> Model:
  specs = None
  if model.inputs:
    # The keys of a dictionary of inputs may differ from the layers' names.
    by_name = (
      model.input.items()
      if isinstance(model.input, Mapping)
      else [(tensor.name, tensor) for tensor in model.inputs]
    )
    specs = {
      name: tf.TensorSpec(tensor.shape, tensor.dtype)
      for name, tensor in by_name
    }
  return Model(
    path,
    specs,
    lambda x: model(x, training=False),
    model.output if model.outputs else None,
  )


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

  # Keep a reference: the loaded object owns the variables of its signatures.
  call.loaded = loaded  # type: ignore[attr-defined]
  return Model(name, specs, call, signature.structured_outputs)


def _shape(sizes: Sequence[int | None]) -> str:
  return f"[{', '.join(['n', *map(str, sizes[1:])])}]"
