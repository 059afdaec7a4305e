"""The task of a run, with the run's model.

Problems that show only with the data are errors of the setting behind them.
"""

import dataclasses
import functools

import numpy as np

import tasks
from tasks import task as tasks_task
from tasks.models import described
from tff_fair.declared import FieldError
from tff_fair.experiments import importing
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.worker_data import index
from tff_fair.experiments.worker_data.index import WorkerData

# What `load_ahead` has loaded, for the next call of `load`.
_ahead: dict[RunSpec, tasks.Task] = {}


def load_ahead(spec: RunSpec) -> None:
  """Loads the task of a run that follows, and keeps it for this run.

  A task reads its data before it imports TensorFlow. So a program that calls
  this first tells in a second of data that cannot be used.

  Args:
    spec: The run.

  Raises:
    FieldError, tasks.DataError: As `load`.
  """
  _ahead.clear()
  with importing.quick():
    _ahead[spec] = load(spec)


def load(spec: RunSpec, at_workers: WorkerData | None = None) -> tasks.Task:
  """Loads the task of a run, with the run's model.

  Args:
    spec: The run.
    at_workers: Files of the examples, if workers have them.

  Raises:
    FieldError: If an option or the model does not go with the data.
    tasks.DataError: If the data cannot be used.
  """
  task = _ahead.pop(spec, None)
  if task is not None and at_workers is None:
    return task
  try:
    task = (
      _load_here(spec)
      if at_workers is None
      else _load_at_workers(at_workers, spec)
    )
  except (tasks.DataError, FieldError):
    raise
  except tasks.UserCodeError as error:
    raise FieldError("task", error.problem, value=spec.task) from error
  except ValueError as error:
    raise FieldError("task_options", str(error)) from error
  task = tasks.with_validation(task, spec.validation_fraction, spec.seeds.data)
  if spec.model is None:
    return task
  try:
    return tasks.with_model(task, spec.model, seed=spec.seeds.model)
  except tasks.UserCodeError as error:
    raise FieldError("model", error.problem, value=spec.model) from error


def _load_here(spec: RunSpec) -> tasks.Task:
  return tasks.load(
    spec.task,
    data_dir=spec.data_dir,
    seed=spec.seeds.data,
    model_seed=spec.seeds.model,
    **spec.task_options,
  )


# A task of the data at the workers: its program reads the index alone.


def _load_at_workers(data: WorkerData, spec: RunSpec) -> tasks.Task:
  """Returns the task of a run; its clients' examples are those of a folder.

  Where the index cannot describe the model, such as a user's own, or describes
  one of other initial weights, the task itself is loaded as well.
  """
  index.check_described(data, spec)
  train, test = (_split(data, name) for name in index.SPLITS)
  # A folder is written for a run with one seed for all.
  has_other_weights = spec.model is None and spec.seeds.model != spec.seeds.data
  if data.index["model"] is None or has_other_weights:
    task = _load_here(spec)
    for mine, theirs in ((train, task.train), (test, task.test)):
      if not np.array_equal(mine.num_examples, theirs.num_examples):
        raise data.error(
          "has other numbers of examples than the task that this program "
          "loads; write the folder again."
        )
    return dataclasses.replace(task, train=train, test=test)
  try:
    model = {
      name: described.build(value)
      for name, value in data.index["model"].items()
    }
  except ValueError as error:
    raise data.error(f"{index.INDEX}: {error}") from error
  x, y = data.files("train")
  return tasks.Task(
    name=data.index["name"],
    description=data.index["description"],
    client_names=data.client_names,
    element_spec=tasks_task.element_spec(
      x.shape,
      np.dtype(x.dtype).name,
      y_shape=y.shape,
      y_dtype=np.dtype(y.dtype).name,
    ),
    num_classes=data.index["num_classes"],
    label_scale=data.index["label_scale"],
    class_names=data.index["class_names"],
    train=train,
    test=test,
    keras_model_fn=model["keras_model_fn"],
    objective=model["objective"],
    client_weights=data.clients.get("client_weights"),
  )


def _split(data: WorkerData, name: str) -> tasks.Split:
  return tasks.Split(
    num_examples=data.clients[name],
    load=functools.partial(_load, data, name),
  )


def _load(data: WorkerData, split: str, client_id: int) -> tasks_task.Arrays:
  """Reads a client here, where the program's host has the files, too."""
  first, number = data.client(split, client_id)
  x, y = (
    _mapped(data.path(file), file.dtype, tuple(file.shape), file.num_bytes)[
      first : first + number
    ]
    for file in data.files(split)
  )
  return x, y


@functools.lru_cache(len(index.SPLITS) * len(index.ARRAYS))
def _mapped(
  path: str, dtype: str, shape: tuple[int, ...], num_bytes: int
) -> np.ndarray:
  row_bytes = int(np.dtype(dtype).itemsize * np.prod(shape, dtype=np.int64))
  try:
    return np.memmap(path, dtype, "r", shape=(num_bytes // row_bytes, *shape))
  except (OSError, ValueError) as error:
    raise tasks.DataError(path, f"cannot be read here: {error}.") from error
