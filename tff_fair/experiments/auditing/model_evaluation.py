"""A model on the data of a task's clients, one after the other.

Nothing of TensorFlow Federated's runtime is needed: each client's examples go
through the plain model. Several small clients share a call.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, get_args

import numpy as np
import pandas as pd

import tasks
from tff_fair.declared import FieldError
from tff_fair.experiments.auditing import audited_score, models
from tff_fair.experiments.auditing.models import Model

Split = Literal["test", "train", "all"]
Outputs = Literal["auto", "probabilities", "logits"]
SPLITS: tuple[str, ...] = get_args(Split)
OUTPUTS: tuple[str, ...] = get_args(Outputs)

_EXAMPLES_PER_CALL = 8192
_SUM_SLACK = 1e-3  # Probabilities are float32, or float16.


class _Part(NamedTuple):
  """The data of some clients.

  Attributes:
    sizes: int64[m], examples of each.
    x: Their inputs, or raw columns by name.
    y: Their labels.
  """

  sizes: np.ndarray
  x: np.ndarray | models.Columns
  y: np.ndarray


def evaluate(
  model: Model,
  task: tasks.Task,
  *,
  split: Split = "test",
  outputs: Outputs = "auto",
) -> pd.DataFrame:
  """Evaluates a model on each client's data.

  Args:
    model: The model.
    task: The clients.
    split: Which half of their data, or both.
    outputs: Of a classifier: what it gives. "auto" takes rows that sum to 1 for
      probabilities.

  Returns:
    One row per client: client, num_examples, and correct, accuracy and loss,
    the mean cross entropy. Where the label is a number: rmse, in the label's
    own units, and r2, which is missing where a client's labels are all equal.

  Raises:
    FieldError: If the model does not go with the task.
    tasks.DataError: If the data cannot be used.
  """
  _check_labels(task)
  model.check_fits(task)
  raw = model.takes_columns(task)
  measure: _Errors | _Hits = (
    _Errors(task, model, raw)
    if task.num_classes is None
    else _Hits(task.num_classes, model, outputs)
  )
  rows = []
  for part in _parts(task, split, model, raw=raw):
    found = model.outputs(part.x)
    if not np.isfinite(found).all():
      raise _error(model, "gives numbers that are not finite.")
    rows.append(pd.DataFrame(measure.of(found, part)))
  table = pd.concat(rows, ignore_index=True)
  table.insert(0, audited_score.CLIENT, list(task.client_names))
  return table


def _check_labels(task: tasks.Task) -> None:
  label = task.element_spec[1]
  if task.num_classes is None or (
    label.shape.rank == 1 and label.dtype.is_integer
  ):
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
  """Yields the data of all clients in their order, some at a time."""
  halves = {
    "test": [task.test],
    "train": [task.train],
    "all": [task.train, task.test],
  }[split]
  gathered: list[tuple[models.Columns | np.ndarray, np.ndarray]] = []
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
) -> tuple[models.Columns | np.ndarray, np.ndarray]:
  if not raw:
    return half.load(client_id)
  if half.raw is None:
    raise _error(
      model,
      "takes raw columns, which the task does not hand out; audit a "
      "model that takes its x.",
    )
  return half.raw(client_id)


def _joined(
  parts: tuple[models.Columns | np.ndarray, ...],
) -> models.Columns | np.ndarray:
  first = parts[0]
  if isinstance(first, Mapping):
    return {
      name: np.concatenate([part[name] for part in parts]) for name in first
    }
  return np.concatenate(parts)  # type: ignore[arg-type]


class _Hits:
  """Accuracy and cross entropy of a classifier."""

  def __init__(self, num_classes: int, model: Model, outputs: Outputs) -> None:
    self._num_classes = num_classes
    self._model = model
    self._outputs = outputs

  def of(self, outputs: np.ndarray, part: _Part) -> dict[str, np.ndarray]:
    """Returns the rows of some clients, as columns."""
    outputs = self._one_for_each_class(outputs)
    labels = part.y.astype(np.int64)
    at_label = np.take_along_axis(outputs, labels[:, None], 1)[:, 0]
    if self._outputs == "probabilities":
      # Keras, too, keeps its losses finite so.
      losses = -np.log(np.clip(at_label, 1e-7, 1))
    else:
      largest = outputs.max(1)
      sums = np.exp(outputs - largest[:, None]).sum(1)
      losses = np.log(sums) + largest - at_label
    correct = _sums(outputs.argmax(1) == labels, part.sizes)
    return {
      audited_score.COUNT: part.sizes,
      audited_score.CORRECT: correct.astype(np.int64),
      audited_score.ACCURACY.name: correct / part.sizes,
      audited_score.LOSS.name: _sums(losses, part.sizes) / part.sizes,
    }

  def _one_for_each_class(self, outputs: np.ndarray) -> np.ndarray:
    """Returns probabilities or logits, float64[n, classes]."""
    if outputs.ndim == 1:
      outputs = outputs[:, None]
    is_single = self._num_classes == 2 and outputs.shape[1:] == (1,)
    if not is_single and outputs.shape[1:] != (self._num_classes,):
      raise _error(
        self._model,
        f"gives outputs of shape {_shape(outputs)}, and the task has "
        f"{self._num_classes} classes; expected [n, {self._num_classes}].",
      )
    are_probabilities = _are_probabilities(outputs, is_single=is_single)
    if self._outputs == "auto":
      # By the first examples, for all.
      self._outputs = "probabilities" if are_probabilities else "logits"
    if self._outputs == "probabilities" and not are_probabilities:
      raise FieldError(
        "outputs",
        f"the outputs of {self._model.name} do not sum to 1 for each example; "
        "are they logits?",
        value=self._outputs,
      )
    if not is_single:
      return outputs
    # One output is about the second class.
    if self._outputs == "probabilities":
      return np.concatenate([1 - outputs, outputs], 1)
    return np.concatenate([np.zeros_like(outputs), outputs], 1)


class _Errors:
  """RMSE and R² of a model that predicts a number, or several."""

  def __init__(self, task: tasks.Task, model: Model, raw: bool) -> None:
    # Raw labels are in their own units.
    self._scale = 1.0 if raw else task.label_scale
    self._model = model

  def of(self, outputs: np.ndarray, part: _Part) -> dict[str, np.ndarray]:
    """Returns the rows of some clients, as columns."""
    labels = part.y.astype(np.float64).reshape(len(part.y), -1)
    number = labels.shape[1]
    if outputs.reshape(len(outputs), -1).shape[1] != number or outputs.ndim > 2:
      what = "is a number" if number == 1 else f"has {number} numbers"
      raise _error(
        self._model,
        f"gives outputs of shape {_shape(outputs)}, and the label of the task "
        f"{what}; expected [n, {number}].",
      )
    squared = (outputs.reshape(labels.shape) - labels) ** 2
    squares = _sums(squared.sum(1), part.sizes)
    # Each number has a mean of its own.
    means = np.stack([_sums(column, part.sizes) for column in labels.T], 1)
    deviations = labels - np.repeat(
      means / part.sizes[:, None], part.sizes, axis=0
    )
    total = _sums((deviations**2).sum(1), part.sizes)
    varies = total > 0
    return {
      audited_score.COUNT: part.sizes,
      audited_score.RMSE.name: (
        self._scale * np.sqrt(squares / (part.sizes * number))
      ),
      audited_score.R2: np.where(
        varies, 1 - squares / np.where(varies, total, 1), np.nan
      ),
    }


def _are_probabilities(outputs: np.ndarray, *, is_single: bool) -> bool:
  in_range = (outputs >= 0).all() and (outputs <= 1 + _SUM_SLACK).all()
  if is_single:
    return bool(in_range)
  return bool(in_range and (np.abs(outputs.sum(1) - 1) <= _SUM_SLACK).all())


def _shape(outputs: np.ndarray) -> str:
  return f"[{', '.join(['n', *map(str, outputs.shape[1:])])}]"


def _sums(values: np.ndarray, sizes: np.ndarray) -> np.ndarray:
  """Returns the sums over the examples of each client, float64[m]."""
  clients = np.repeat(np.arange(sizes.size), sizes)
  return np.bincount(clients, values, sizes.size)


def _error(model: Model, problem: str) -> FieldError:
  return FieldError("model", problem, value=model.name)
