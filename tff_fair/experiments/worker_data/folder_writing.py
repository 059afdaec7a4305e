"""Writes the data of a task's clients for workers to read."""

import contextlib
import functools
import hashlib
import os
import pathlib
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

import tasks
from tasks import notices
from tasks.formats import client_names, files, parsing
from tasks.models import described
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import scoring
from tff_fair.experiments.worker_data import index
from tff_fair.experiments.worker_data.index import WorkerData
from tff_fair.runtime import example_files

# Told how many clients have been written just now.
OnProgress = Callable[[int], object]


def write(
  task: tasks.Task,
  spec: RunSpec,
  folder: str | os.PathLike[str],
  *,
  overwrite: bool = False,
  on_progress: OnProgress = lambda _: None,
) -> WorkerData:
  """Writes both halves of a task into a folder.

  It gets its name when it is whole. One client at a time is in memory.

  Args:
    task: The task.
    spec: The run that it was loaded for.
    folder: A folder that is new or empty.
    overwrite: Whether an earlier folder of worker data may be replaced.
    on_progress: Called with 1 after each client is written, of either half.

  Raises:
    FieldError: If the folder is taken or cannot be written, or the examples are
      no arrays of numbers of one shape.
    tasks.DataError: If a client's data cannot be used.
  """
  path = pathlib.Path(os.path.abspath(os.path.expanduser(folder)))
  check_free = functools.partial(_check_free, path, overwrite=overwrite)
  check_free()
  if not example_files.can_hold(task.element_spec):
    raise index.error(
      path,
      f"the examples of {task.name} are {task.element_spec}; only numbers of "
      "shapes that are known can be read by place.",
    )
  if task.test.groups is not None:
    notices.notify(
      f"{path}: leaves out the groups of {task.name}; runs on it have none."
    )
  try:
    with files.moved_when_whole(path, check_free) as staged:
      staged.mkdir()
      _write_folder(task, spec, staged, on_progress)
  except OSError as error:
    raise index.error(
      path, f"cannot be written: {error.strerror or error}."
    ) from error
  return WorkerData(path)


def _check_free(path: pathlib.Path, *, overwrite: bool) -> None:
  try:
    names = {entry.name for entry in path.iterdir()}
  except FileNotFoundError:
    return
  except OSError as error:
    raise index.error(path, f"is no such folder: {error.strerror}.") from error
  if not names:
    return
  if index.INDEX not in names:
    raise index.error(
      path, "holds something else; name a folder that is new or empty."
    )
  if not overwrite:
    raise index.error(
      path, "holds worker data already; --overwrite replaces them."
    )


def _write_folder(
  task: tasks.Task,
  spec: RunSpec,
  folder: pathlib.Path,
  on_progress: OnProgress,
) -> None:
  written: dict[str, list[dict[str, Any]]] = {}
  text, ends = client_names.ClientNames(task.client_names).parts
  clients = {"names": np.frombuffer(text, np.uint8), "name_ends": ends}
  for name, split in zip(index.SPLITS, (task.train, task.test), strict=True):
    written[name], variances = _write_split(
      task, split, name, folder, on_progress
    )
    clients[name] = np.asarray(split.num_examples, np.int64)
    if variances is not None:
      clients[f"{name}_label_variance"] = variances
  if task.client_weights is not None:
    clients["client_weights"] = task.client_weights
  np.savez(folder / index.CLIENTS, **clients)
  content = {
    "format": index.FORMAT,
    "made_of": index.described(spec),
    "name": task.name,
    "description": task.description,
    "num_classes": task.num_classes,
    "label_scale": task.label_scale,
    "class_names": task.class_names and list(task.class_names),
    "model": _described(task),
    "clients": _sha256(folder / index.CLIENTS),
    "files": written,
  }
  encoded = parsing.json_text(content).encode()
  (folder / index.INDEX).write_bytes(encoded)
  version = hashlib.sha256(encoded).hexdigest().encode()
  for file in (file for half in written.values() for file in half):
    with (folder / file["name"]).open("ab") as opened:
      opened.write(version)


def _write_split(
  task: tasks.Task,
  split: tasks.Split,
  name: str,
  folder: pathlib.Path,
  on_progress: OnProgress,
) -> tuple[list[dict[str, Any]], np.ndarray | None]:
  """Returns the index of the files, and the variances of labels if numbers."""
  variances: list[float] = []
  with contextlib.ExitStack() as opened:
    arrays = [
      _RowsFile(opened, folder / f"{name}_{title}.bin", spec)
      for title, spec in zip(index.ARRAYS, task.element_spec, strict=True)
    ]
    for client_id in range(task.num_clients):
      examples = split.load(client_id)
      try:
        rows = example_files.contents(examples, task.element_spec)
        found, expected = len(examples[1]), split.num_examples[client_id]
        if found != expected:
          raise ValueError(f"Expected {expected} examples, found {found}.")
      except ValueError as error:
        raise tasks.DataError(
          f"client {task.client_names[client_id]}", f"{error}"
        ) from error
      for array, content in zip(arrays, rows, strict=True):
        array.write(content)
      if task.num_classes is None:
        variances.append(scoring.variance(examples[1]))
      on_progress(1)
  return [array.described() for array in arrays], (
    np.array(variances) if task.num_classes is None else None
  )


class _RowsFile:
  """A file of rows that is written client by client."""

  def __init__(
    self, opened: contextlib.ExitStack, path: pathlib.Path, spec: Any
  ) -> None:
    self._name = path.name
    self._dtype = np.dtype(spec.dtype.as_numpy_dtype)
    self._shape = [int(size) for size in spec.shape[1:]]
    self._file: BinaryIO = opened.enter_context(path.open("wb"))
    self._sha256 = hashlib.sha256()
    self._num_bytes = 0

  def write(self, rows: np.ndarray) -> None:
    self._file.write(rows.data)
    self._sha256.update(rows.data)
    self._num_bytes += rows.nbytes

  def described(self) -> dict[str, Any]:
    return {
      "name": self._name,
      "dtype": self._dtype.str,
      "shape": self._shape,
      "num_bytes": self._num_bytes,
      "sha256": self._sha256.hexdigest(),
    }


def _described(task: tasks.Task) -> object:
  """Returns the model as plain values; `None` if only the task can make it."""
  if task.preprocessing is not None:
    return None
  try:
    return {
      "keras_model_fn": described.describe(task.keras_model_fn),
      "objective": described.describe(task.objective),
    }
  except TypeError:
    return None


def _sha256(path: pathlib.Path) -> str:
  return hashlib.sha256(path.read_bytes()).hexdigest()
