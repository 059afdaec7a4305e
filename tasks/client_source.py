"""The source of clients' examples, as a value that can be sent to a worker.

source = tasks.ClientSource(task="mnist", options={"num_clients": 100})
x, y = source(7)

The value holds only names and numbers. Each process that calls it, on any host,
loads the task itself, once for all clients.
"""

import dataclasses
import functools
import hashlib
import os
import threading
from collections.abc import Mapping
from typing import Literal

import numpy as np

from tasks import registry, validation
from tasks.options import Value
from tasks.task import Arrays, Split, Task
from tff_fair import user_functions

SplitName = Literal["train", "test", "validation"]

# The number of tasks that a process keeps; it may alternate between two.
_NUM_CACHED_TASKS = 2
# The number of clients whose examples determine `ClientSource.version`.
_NUM_CLIENTS_IN_VERSION = 8
_task_lock = threading.Lock()  # Tasks need not be thread-safe.


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClientSource:
  """One split of a task's data, described by the task's name and options.

  Attributes:
    task: The name of the task, for `tasks.load`.
    options: Options of the task by name; all others have their defaults.
    seed: The task's seed.
    data_dir: The folder with the data files, the same on each host; None for
      the default location of the task's loader.
    split: The part of each client's data to return.
    validation_fraction: The share of each client's training examples to hold
      out, as in `tasks.with_validation`.
  """

  task: str
  options: Mapping[str, Value] = dataclasses.field(
    default_factory=dict, hash=False
  )
  seed: int = 0
  data_dir: str | None = None
  split: SplitName = "train"
  validation_fraction: float = 0.0

  def __post_init__(self) -> None:
    # A worker may have another working directory.
    if self.data_dir is not None:
      path = os.path.expanduser(self.data_dir)
      object.__setattr__(self, "data_dir", os.path.abspath(path))
    options = dict(self.options)
    if isinstance(loss := options.get("loss"), str):
      options["loss"] = user_functions.absolute_name(loss)
    object.__setattr__(self, "options", options)
    object.__setattr__(self, "task", user_functions.absolute_name(self.task))

  def __call__(self, client_id: int) -> Arrays:
    """Returns all of a client's examples as `(x, y)`, one row per example.

    x and y have the types and shapes of the task's `element_spec`. The first
    call in a process loads the task.

    Args:
      client_id: The client's index in the task's `client_names`.

    Raises:
      ValueError: If there is no such client, or the task cannot be loaded.
      tasks.DataError: If the data cannot be used (a ValueError too).
    """
    with _task_lock:
      task, split = self._load()
      task.check_client_id(client_id)
      return split.load(client_id)

  @property
  def version(self) -> str:
    """A digest of the data as this process finds it, 64 hexadecimal digits.

    It covers every client's number of examples in `split` and level of label
    noise, and the names and examples of 8 clients, evenly spaced from the first
    to the last.

    Raises:
      ValueError: If the task cannot be loaded.
      tasks.DataError: If the data cannot be used (a ValueError too).
    """
    with _task_lock:
      return _digest(*self._load())

  def _load(self) -> tuple[Task, Split]:
    options = tuple(sorted(self.options.items()))
    task = _task(
      self.task, options, self.seed, self.data_dir, self.validation_fraction
    )
    split = getattr(task, self.split)
    assert isinstance(split, Split)
    return task, split


@functools.lru_cache(_NUM_CACHED_TASKS)
def _task(
  name: str,
  options: tuple[tuple[str, Value], ...],
  seed: int,
  data_dir: str | None,
  validation_fraction: float,
) -> Task:
  # Only examples are used, so any model seed will do.
  task = registry.load(
    name, data_dir=data_dir, seed=seed, model_seed=seed, **dict(options)
  )
  return validation.with_validation(task, validation_fraction, seed)


def _digest(task: Task, split: Split) -> str:
  numbers = np.ascontiguousarray(split.num_examples, "<i8")
  content = hashlib.sha256(numbers.data)
  if split.noise_levels is not None:
    content.update(np.ascontiguousarray(split.noise_levels, "<f8").data)
  chosen = np.linspace(0, len(numbers) - 1, _NUM_CLIENTS_IN_VERSION)
  for client_id in np.unique(chosen.astype(int)).tolist():
    content.update(f"\n{task.client_names[client_id]}\n".encode())
    for array in split.load(client_id):
      content.update(f"{array.dtype.str}{array.shape}".encode())
      content.update(np.ascontiguousarray(array).data)
  return content.hexdigest()
