"""Clients' data that Dask's workers build from ids: nothing else travels."""

from __future__ import annotations

import dataclasses
import functools
import socket
from typing import Any, Literal, Protocol

import numpy as np
import tensorflow as tf

import tasks
from tasks import task as tasks_task
from tff_fair import runtime
from tff_fair.experiments.spec import RunSpec
from tff_fair.experiments.training import client_data, scoring


class Clients(Protocol):
  """Returns the data of clients by id, or what stands for it."""

  def __call__(self, client_ids: client_data.Ids) -> list[Any]:
    """See `client_data.ClientData`."""

  def prepare(self, client_ids: client_data.Ids) -> None:
    """Begins to load the data that the next calls ask for."""

  def label_variance(self, client_id: int) -> float:
    """Returns `scoring.variance` of a client. Labels must be numbers."""


# A worker may serve several runs, each with two halves.
_MOST_SOURCES = 8


@dataclasses.dataclass(frozen=True)
class _Build:
  """Makes a client's dataset, in a worker.

  Attributes:
    source: Loads the client's arrays.
    version: The version of the data that the program has.
    element_spec: `Task.element_spec`.
  """

  source: tasks.ClientSource
  version: str
  element_spec: tasks_task.ElementSpec

  def __call__(self, client_id: int) -> tf.data.Dataset:
    """Returns the data of a client, as processes take it.

    Raises:
      tasks.DataError: If this host lacks the data, or has another version.
    """
    return _opened(self)([client_id])[0]


@functools.lru_cache(_MOST_SOURCES)
def _opened(build: _Build) -> client_data.ClientData:
  """Returns the data of one half, in this process, once they are checked."""
  source = build.source
  host = f"on host {socket.gethostname()}"
  try:
    version = source.version
  except ValueError as error:
    raise tasks.DataError(f"{error} ({host})") from error
  if version != build.version:
    place = "" if source.data_dir is None else f" in {source.data_dir}"
    raise tasks.DataError(
      f"The {source.split} data of task {source.task}{place} {host} are of "
      "another version than those of the program. Copy the same files there."
    )
  half = tasks.Split(num_examples=np.zeros(0, np.int64), load=source)
  return client_data.ClientData(half, build.element_spec)


class DataAtWorkers:
  """Returns the data of clients by id, as `ClientData` does."""

  def __init__(
    self,
    source: tasks.ClientSource,
    split: tasks.Split,
    element_spec: tasks_task.ElementSpec,
  ) -> None:
    """Takes the data.

    Args:
      source: From where workers load it.
      split: The same data.
      element_spec: `Task.element_spec`.
    """
    self._split = split
    self._build = _Build(source, source.version, element_spec)

  def __call__(self, client_ids: client_data.Ids) -> list[runtime.DataAtWorker]:
    """Returns what stands for the data of clients."""
    ids = np.asarray(client_ids).tolist()
    return [runtime.DataAtWorker(self._build, client_id) for client_id in ids]

  def prepare(self, client_ids: client_data.Ids) -> None:
    """Does nothing: workers load data when they need them."""

  def label_variance(self, client_id: int) -> float:
    """Returns `scoring.variance` of a client. Labels must be numbers."""
    return scoring.variance(self._split.load(client_id)[1])


def halves(spec: RunSpec, task: tasks.Task) -> tuple[Clients, Clients]:
  """Returns the training and the test data of a run's clients.

  Args:
    spec: The run, whose settings tell workers how to load the data.
    task: The task of the run.

  Raises:
    tasks.DataError: If the data cannot be used.
  """

  def half(name: Literal["train", "test"], split: tasks.Split) -> DataAtWorkers:
    source = tasks.ClientSource(
      task=spec.task,
      options=spec.task_options,
      seed=spec.seeds.data,
      data_dir=None if spec.data_dir is None else str(spec.data_dir),
      split=name,
    )
    return DataAtWorkers(source, split, task.element_spec)

  return half("train", task.train), half("test", task.test)
