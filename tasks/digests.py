"""Digests of a task's data, by which a resumed run recognizes changed data."""

import hashlib

import numpy as np

from tasks.formats import source_files
from tasks.task import Task

# With more clients than this, only `_SAMPLED_CLIENTS` evenly spaced ones count.
_MOST_CLIENTS = 5000
_SAMPLED_CLIENTS = 1000


def data_digests(task: Task) -> dict[str, str]:
  """Returns the SHA-256 digests of a task's data, by name.

  Args:
    task: The task.

  Returns:
    The digests of the files that the task read, by path. If it read no file,
    one digest, "examples", of the examples of all clients, or of 1,000 clients
    if there are more than 5,000.

  Raises:
    DataError: If the data cannot be read.
  """
  if found := source_files.digests(task.files):
    return found
  return {"examples": _of_examples(task)}


def _of_examples(task: Task) -> str:
  sha256 = hashlib.sha256()
  for name in task.client_names:
    sha256.update(f"{name}\0".encode(errors="surrogatepass"))
  clients = np.arange(task.num_clients)
  if task.num_clients > _MOST_CLIENTS:
    ends = 0, task.num_clients - 1
    clients = np.linspace(*ends, _SAMPLED_CLIENTS).astype(np.int64)
  for part in filter(None, (task.train, task.test, task.validation)):
    _add(sha256, part.num_examples)
    for client_id in clients.tolist():
      for array in part.load(client_id):
        _add(sha256, np.asarray(array))
      if part.groups is not None:
        _add(sha256, part.groups(client_id))
  return sha256.hexdigest()


def _add(sha256: "hashlib._Hash", array: np.ndarray) -> None:
  if array.dtype.hasobject:
    sha256.update(repr(array.tolist()).encode())
    return
  sha256.update(f"{array.dtype.str}{array.shape}".encode())
  sha256.update(np.ascontiguousarray(array).tobytes())
