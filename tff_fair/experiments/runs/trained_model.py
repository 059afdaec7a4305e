"""Reads the model of a run: layers from model.json, weights from its states."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from tasks.models import exportable
from tff_fair import keras_state
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import checkpoints, configuration
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.files import atomic, parsing

if typing.TYPE_CHECKING:
  import tasks
  from tasks.task import KerasModelFn, Preprocessing
  from tff_fair.experiments.spec.run_spec import RunSpec

TRAINED = "trained_model"  # The name of the layer with the trained weights.
_BATCH = 512  # The number of examples in a forward pass.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Architecture:
  """The content of model.json: a model's layers, inputs and outputs."""

  trained: exportable.Config | None  # None if the model has a user's layers.
  with_preprocessing: exportable.Config | None  # Takes raw columns.
  columns: Mapping[str, str]  # Raw columns by name: "number" or "text".
  typical: Mapping[str, float | str]  # A typical value of each column.
  x_shape: Sequence[int]
  x_dtype: str
  activation: str | None  # None if outputs are the predictions.
  num_classes: int | None  # None if the label is a number.
  class_names: Sequence[str] | None
  num_clients: int

  @classmethod
  def of_task(
    cls,
    task: tasks.Task,
    on_code: Callable[[exportable.NotExportableError], object] = lambda _: None,
  ) -> Self:
    """Describes a task's model; calls `on_code` if it contains users' code."""
    # Layers get the same names as in a new program, so that runs of one spec
    # write equal files.
    with keras_state.fresh_names():
      try:
        trained = exportable.describe(task.keras_model_fn(), TRAINED)
      except exportable.NotExportableError as error:
        on_code(error)
        trained = None
      with_preprocessing = _with_preprocessing(task, trained)
    x_spec = task.element_spec[0]
    raw = task.preprocessing
    return cls(
      trained=trained,
      with_preprocessing=with_preprocessing,
      columns=dict(raw.columns) if raw else {},
      typical=dict(raw.typical) if raw else {},
      x_shape=x_spec.shape[1:].as_list(),
      x_dtype=x_spec.dtype.name,
      activation=task.objective.activation,
      num_classes=task.num_classes,
      class_names=task.class_names and list(task.class_names),
      num_clients=task.num_clients,
    )

  def write(self, path: pathlib.Path) -> None:
    """Writes the architecture to a file."""
    atomic.write(path, parsing.json_text(dataclasses.asdict(self), None))

  @classmethod
  def read(cls, path: pathlib.Path) -> Self:
    """Reads an architecture from a file."""
    try:
      content = parsing.parse_json(path.read_text("utf-8"))
      return cls(**{f.name: content[f.name] for f in dataclasses.fields(cls)})
    except (OSError, LookupError, TypeError, ValueError) as error:
      raise RunError(
        f"{path}: cannot be read ({error}); restore it, or move it away: then "
        "the model comes from the task."
      ) from error


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildableModel:
  """The architecture of a run's model, and functions that build the model.

  `build_with_preprocessing` returns a model that takes raw columns, and the
  trained model inside it; it is None if the task has no preprocessing.
  """

  architecture: Architecture
  build: Callable[[], tf.keras.Model]
  build_with_preprocessing: (
    Callable[[], tuple[tf.keras.Model, tf.keras.Model]] | None
  )


def find(
  folder: RunFolder,
  config: configuration.Configuration,
  spec: Callable[[], RunSpec],
  *,
  trust: bool = False,
) -> BuildableModel:
  """Finds a run's model: in its folder, or else by loading its task."""
  if not folder.model.exists():
    return _find_by_task(config, spec(), trust)
  try:
    return _find_in_folder(Architecture.read(folder.model))
  except exportable.NotExportableError:
    return _find_by_task(config, spec(), trust)  # The task has the user's code.


def _find_in_folder(architecture: Architecture) -> BuildableModel:
  trained, whole = architecture.trained, architecture.with_preprocessing
  if trained is None or (architecture.columns and whole is None):
    raise exportable.NotExportableError("has layers of the user's own")
  exportable.build(trained)  # Raises an error if it contains a user's function.
  return BuildableModel(
    architecture=architecture,
    build=functools.partial(exportable.build, trained),
    build_with_preprocessing=None
    if whole is None
    else functools.partial(_build_from_config, whole),
  )


def _find_by_task(
  config: configuration.Configuration, spec: RunSpec, trust: bool
) -> BuildableModel:
  # Imported here, as it imports TensorFlow Federated.
  from tff_fair.experiments.spec import task_loading  # noqa: PLC0415

  spec = configuration.authorize_code(config, spec, trust=trust)
  task = task_loading.load(spec)
  architecture = Architecture.of_task(task)
  trained = architecture.trained
  build: KerasModelFn = task.keras_model_fn
  if trained is not None:
    build = functools.partial(exportable.build, trained)

  return BuildableModel(
    architecture=architecture,
    build=build,
    build_with_preprocessing=None
    if task.preprocessing is None
    else functools.partial(
      _build_with_preprocessing, task.preprocessing, build
    ),
  )


def _build_from_config(
  config: exportable.Config,
) -> tuple[tf.keras.Model, tf.keras.Model]:
  whole = exportable.build(config)
  return whole, whole.get_layer(TRAINED)


def _build_with_preprocessing(
  preprocessing: Preprocessing, build: KerasModelFn
) -> tuple[tf.keras.Model, tf.keras.Model]:
  trained = build()
  return preprocessing.wrap(trained), trained


def _with_preprocessing(
  task: tasks.Task, trained: exportable.Config | None
) -> exportable.Config | None:
  if task.preprocessing is None or trained is None:
    return None
  model = exportable.build(trained)
  whole = task.preprocessing.wrap(model)
  if len(whole.weights) > len(model.weights):
    return None  # A config could not hold the weights of preprocessing.
  try:
    config = exportable.config_of(whole)
    exportable.build(config).get_layer(TRAINED)
  except (exportable.NotExportableError, ValueError):
    return None
  return config


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weights:
  """The weights of a run's models, after one of its rounds."""

  round_num: int
  trainable: Sequence[np.ndarray]
  non_trainable: Sequence[np.ndarray]
  personal: Mapping[int, np.ndarray] | None  # Flat trainable weights by client.

  def as_list(self, client_id: int | None = None) -> list[np.ndarray]:
    """Returns a client's personal weights, or else the global weights."""
    table = self.personal or {}
    if client_id is None or client_id not in table:
      return [*self.trainable, *self.non_trainable]
    row = table[client_id]
    ends = np.cumsum([array.size for array in self.trainable])
    parts = np.split(row, ends[:-1])
    return [
      *(
        part.reshape(array.shape)
        for part, array in zip(parts, self.trainable, strict=True)
      ),
      *self.non_trainable,
    ]


def load_weights(folder: RunFolder, *, best: bool) -> Weights:
  """Loads the weights of a run's last saved state, or of its best state."""
  states = folder.best_checkpoint if best else folder.checkpoints
  rounds = checkpoints.saved_rounds(states)
  if not rounds:
    raise RunError(
      f"{states}: holds no state"
      + ("; a run keeps its best one if it has a criterion." if best else ".")
    )
  state = checkpoints.load_state(checkpoints.path(states, rounds[-1]))
  found = _model_weights(state)
  return Weights(
    round_num=rounds[-1],
    trainable=[w.numpy() for w in found.trainable],
    non_trainable=[w.numpy() for w in found.non_trainable],
    personal=_personal(state),
  )


def assign(keras_model: tf.keras.Model, values: Sequence[np.ndarray]) -> None:
  """Assigns weights to a Keras model: the trainable ones, then the others."""
  variables = (
    *keras_model.trainable_variables,
    *keras_model.non_trainable_variables,
  )
  for variable, value in zip(variables, values, strict=True):
    variable.assign(value)


def outputs(keras_model: tf.keras.Model, x: np.ndarray) -> np.ndarray:
  """Returns the outputs of a model for n examples, float32[n, ...]."""
  batches = [
    keras_model(x[first : first + _BATCH], training=False).numpy()
    for first in range(0, len(x), _BATCH)
  ]
  return np.concatenate(batches)


def _model_weights(state: Any) -> Any:
  """Returns a state's model weights, or their average over rounds, if any."""
  finalizer = state.finalizer
  # If the finalizer averages the model over rounds, the average is the model.
  if isinstance(finalizer, dict) and "average" in finalizer:
    average = finalizer["average"]
    if average["num_rounds"] > 0:
      return average["weights"]
  return state.global_model_weights


def _personal(state: Any) -> Mapping[int, np.ndarray] | None:
  client_work = state.client_work
  if not isinstance(client_work, dict) or "personal" not in client_work:
    return None
  table = client_work["personal"]
  ids, rows = table["client_id"].numpy(), table["weights"].numpy()
  return dict(zip(ids.tolist(), rows, strict=True))
