"""Loads clients' examples as inputs of a linear model, for `ceiling`."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import run_groups
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import configuration, discovery, tables
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.metrics import client_losses
from tff_fair.metrics.client_losses import Array, ClientLosses

if typing.TYPE_CHECKING:
  import tensorflow as tf

  import tasks
  from tff_fair.experiments.runs.discovery import Place

_BATCH = 1024

_Clients: TypeAlias = tuple[int, ...] | None  # Ids; None means all clients.


class _Model(NamedTuple):
  """A Keras model, split into its feature layers and its last dense layer."""

  parts: Sequence[Callable[..., Any]]
  last: tf.keras.layers.Dense
  loss: client_losses.Loss

  @property
  def has_representation(self) -> bool:
    return any(getattr(part, "weights", ()) for part in self.parts)

  def weights(self) -> Array:
    """Returns the last layer's weights, flattened, with the biases last."""
    kernel, *bias = self.last.get_weights()
    rows = [kernel, *(b[None] for b in bias)]
    return np.concatenate(rows).astype(np.float64).ravel()

  def features(self, x: np.ndarray) -> np.ndarray:
    """Returns the last layer's inputs, with a column of ones for the biases."""
    found = []
    for start in range(0, len(x), _BATCH):
      batch = x[start : start + _BATCH]
      for part in self.parts:
        batch = part(batch, training=False)
      found.append(np.asarray(batch, np.float32).reshape(len(batch), -1))
    ones = [np.ones((len(x), 1), np.float32)] * self.last.use_bias
    return np.concatenate([np.concatenate(found), *ones], 1)


class RunWeights(NamedTuple):
  """A run, and the weights of its model's last layer."""

  run: Run
  method: str
  weights: Array

  @property
  def norm(self) -> float:
    """The Euclidean norm of the weights."""
    return float(np.linalg.norm(self.weights))


class Problem(NamedTuple):
  """Clients' examples, and the weights of runs that trained on them."""

  title: str
  representation: str
  train: ClientLosses
  test: ClientLosses
  client_weights: np.ndarray | None
  runs: Sequence[RunWeights]
  notes: Sequence[str]


def load(
  spec: RunSpec,
  title: str,
  clients: _Clients = None,
  members: Sequence[tuple[Run, str]] = (),
) -> Iterator[Problem]:
  """Yields one problem for all runs in `members`.

  If the model has weights before its last layer, yields one problem per run.
  """
  # Imported here, since these modules import TensorFlow.
  from tff_fair.experiments.runs import trained_model  # noqa: PLC0415
  from tff_fair.experiments.spec import task_loading  # noqa: PLC0415

  task = task_loading.load(spec)
  loss = _loss(task)
  keras_model = task.keras_model_fn()
  model = _split(keras_model, loss, task)
  if model.has_representation and not members:
    raise FieldError(
      "model",
      "has weights before its last layer, so that its loss is not convex; "
      "give a trained run, whose representation then has a ceiling.",
    )
  ids = np.arange(task.num_clients) if clients is None else np.array(clients)
  given = task.client_weights
  parts = [members]
  if model.has_representation:
    parts = [[member] for member in members]
  for part in parts:
    weights, notes = [], []
    for run, method in part:
      if changed := _changed_data(run, task):
        notes.append(f"{run.path}: left out, as its data changed: {changed}.")
        continue
      trained_model.assign(keras_model, run.weights())
      weights.append(RunWeights(run, method, model.weights()))
    yield Problem(
      title,
      str(part[0][0].path) if model.has_representation else "",
      _rows(task.train, ids, model, task.num_classes),
      _rows(task.test, ids, model, task.num_classes),
      None if given is None else given[ids],
      weights,
      notes,
    )


# Settings that determine a run's problem, besides the task and its options.
_FURTHER = ("task_file", "data_dir", "model", "model_file", "unseen_clients")


def of_runs(
  runs: Run | Place | Iterable[Run | Place], *, trust: bool
) -> tuple[list[Problem], list[str]]:
  """Returns the problems of finished runs, and notes on runs left out."""
  found = discovery.find_intact(runs, ("clients",))
  notes = list(found.notes)
  finished = [run for run in found.runs if run.is_finished]
  if left_out := len(found.runs) - len(finished):
    notes.append(f"{left_out} unfinished runs are left out.")
  if not finished:
    raise RunError("No run is finished; train one to its end first.")
  same: dict[tuple[object, _Clients], list[tuple[Run, str]]] = {}
  for group in run_groups.group(finished):
    for run in group.runs:
      data = run_groups.data_key(run, _FURTHER), run.seeds.data
      key = (data, _participants(run))
      same.setdefault(key, []).append((run, group.label))
  problems = []
  for (_, clients), members in same.items():
    first, _ = members[0]
    spec = configuration.authorize_code(first.config, first.spec, trust=trust)
    alike = [run for run in finished if run.task == first.task]
    options = run_groups.distinguishing_options(first, alike, _FURTHER)
    title = ", ".join([first.task, *options])
    for problem in load(spec, title, clients, members):
      notes += problem.notes
      if problem.runs:
        problems.append(problem)
  if not problems:
    raise RunError(notes[-1])
  return problems, notes


def _changed_data(run: Run, task: tasks.Task) -> str:
  """Returns the names of data with another digest than in the run, or ""."""
  from tasks import digests  # noqa: PLC0415  Imports TensorFlow.

  before = run.config.get(configuration.DATA_DIGESTS)
  if not before:
    return ""
  now = digests.data_digests(task)
  names = sorted(before.keys() | now.keys())
  return ", ".join(n for n in names if before.get(n) != now.get(n))


def _participants(run: Run) -> _Clients:
  """Returns the ids of a run's clients that may train; None means all."""
  clients = run.clients
  if clients is None or tables.UNSEEN not in clients:
    return None
  taking = clients[~clients[tables.UNSEEN].astype(bool)]
  return tuple(sorted(taking["client_id"]))


def _loss(task: tasks.Task) -> client_losses.Loss:
  if task.num_classes is None:
    return "squared"
  if not task.has_class_labels or task.objective.activation != "softmax":
    raise FieldError(
      "task",
      "has no ceiling: expected one class for each example, or numbers.",
      value=task.name,
    )
  return "softmax"


def _split(
  model: tf.keras.Model, loss: client_losses.Loss, task: tasks.Task
) -> _Model:
  """Splits a model before its last layer, which must be linear."""
  import tensorflow as tf  # noqa: PLC0415

  from tasks.models import initial_weights  # noqa: PLC0415

  user_model = initial_weights.unwrap_user_model(model)
  parts: list[Callable[..., Any]] = []
  last: Any = user_model
  while isinstance(last, tf.keras.Model) and last.layers:
    if isinstance(last, tf.keras.Sequential):
      parts += last.layers[:-1]
    else:
      before = last.layers[-1].input
      parts.append(tf.keras.Model(last.inputs, before))
    last = last.layers[-1]
  is_linear = (
    isinstance(last, tf.keras.layers.Dense)
    and last.activation is tf.keras.activations.linear
  )
  if not is_linear:
    raise FieldError(
      "model",
      f"ends with {type(last).__name__}; a ceiling needs a model that ends "
      "with a Dense layer without an activation.",
      value=task.name,
    )
  if loss == "softmax" and last.units == 1:
    loss = "logistic"
  return _Model(parts, last, loss)


def _rows(
  split: tasks.Split, ids: np.ndarray, model: _Model, num_classes: int | None
) -> ClientLosses:
  x, y, client = [], [], []
  for number, client_id in enumerate(ids):
    rows, labels = split.load(int(client_id))
    x.append(model.features(rows))
    y.append(labels)
    client.append(np.full(len(labels), number))
  return ClientLosses(
    np.concatenate(x),
    np.concatenate(y),
    np.concatenate(client),
    model.loss,
    num_classes,
  )
