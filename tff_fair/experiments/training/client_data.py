"""Loads clients' data in the form that TFF processes take, in a thread."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

import tasks
from tasks import task as tasks_task
from tff_fair import runtime
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import scoring
from tff_fair.runtime.one_graph import client_values

# The most data that stays in memory for later rounds. A client with more data
# takes longer to train than to load.
_MOST_CACHED_BYTES = 32 * 2**20

Ids: TypeAlias = Sequence[int] | np.ndarray


class _CacheEntry(NamedTuple):
  data: tf.data.Dataset
  num_bytes: int


class ClientLoader:
  """A function from client ids to datasets, which it can load in advance."""

  def __init__(
    self,
    split: tasks.Split,
    spec: tasks_task.ElementSpec,
    *,
    thread: concurrent.futures.Executor | None = None,
    groups: Callable[[int], np.ndarray] | None = None,
  ) -> None:
    self._split = split
    self._label_variances: dict[int, float] = {}
    self._groups = groups
    self._thread = thread
    self._prepared: dict[
      tuple[int, ...], concurrent.futures.Future[list[tf.data.Dataset]]
    ] = {}
    self._spec = spec
    self._cached: dict[int, _CacheEntry] = {}
    self._cached_bytes = 0

  def __call__(self, client_ids: Ids) -> list[tf.data.Dataset]:
    """Returns the clients' datasets, in the order of their ids."""
    ids = tuple(np.asarray(client_ids).tolist())
    if self._thread is None:
      return self._load(ids)
    found = self._prepared.pop(ids, None)
    return (found or self._thread.submit(self._load, ids)).result()

  def prepare(self, client_ids: Ids) -> None:
    """Starts to load the clients' data; `__call__` then raises any errors."""
    if self._thread is not None:
      ids = tuple(np.asarray(client_ids).tolist())
      self._prepared = {ids: self._thread.submit(self._load, ids)}

  def label_variance(self, client_id: int) -> float:
    """Returns the variance of the labels of a client that has been loaded."""
    return self._label_variances[client_id]

  def _read(self, client_id: int) -> tasks_task.Arrays:
    """Reads a client's arrays, and records the variance of numeric labels."""
    arrays, known = self._split.load(client_id), self._label_variances
    if self._spec[1].dtype.is_floating and client_id not in known:
      known[client_id] = scoring.variance(arrays[1])
    return arrays

  def _load(self, client_ids: Sequence[int]) -> list[tf.data.Dataset]:
    return [self._dataset(client_id) for client_id in client_ids]

  def _dataset(self, client_id: int) -> tf.data.Dataset:
    """Returns a client's dataset; caches it.

    It equals the dataset of `types.client_dataset`, but is built eight times as
    fast.
    """
    cached = self._cached.pop(client_id, None)
    if cached is None:
      arrays: tuple[np.ndarray, ...] = self._read(client_id)
      spec: tuple[tf.TensorSpec, ...] = self._spec
      if self._groups is not None:
        arrays = *arrays, self._groups(client_id).astype(np.int32)
        spec = *spec, tf.TensorSpec([None], tf.int32)
      data = client_values.single_element_dataset(
        (np.int64(client_id), arrays), (tf.TensorSpec([], tf.int64), spec)
      )
      size = sum(array.nbytes for array in tf.nest.flatten(arrays))
      cached = _CacheEntry(data, size)
      self._cached_bytes += size
    self._cached[client_id] = cached  # The most recently used is last.
    while self._cached_bytes > _MOST_CACHED_BYTES:
      oldest = self._cached.pop(next(iter(self._cached)))
      self._cached_bytes -= oldest.num_bytes
    return cached.data


# The most data sources that a Dask worker keeps; a run has 2 or 3 of them.
_MOST_SOURCES = 8


@dataclasses.dataclass(frozen=True)
class _DatasetBuilder:
  """Builds a client's dataset in a worker whose data must have `version`."""

  source: tasks.ClientSource
  version: str
  element_spec: tasks_task.ElementSpec

  def __call__(self, client_id: int) -> tf.data.Dataset:
    return _open_source(self)([client_id])[0]


@functools.lru_cache(_MOST_SOURCES)
def _open_source(build: _DatasetBuilder) -> ClientLoader:
  """Returns a loader of a worker's data after checking the data's version."""
  source = build.source
  host = f"on host {socket.gethostname()}"
  try:
    version = source.version
  except ValueError as error:
    raise tasks.DataError(f"{error} ({host})") from error
  if version != build.version:
    place = "" if source.data_dir is None else f" in {source.data_dir}"
    raise tasks.DataError(
      f"The {source.split} data of task {source.task}{place} {host} "
      "differ from those of the program. Copy the same files there."
    )
  half = tasks.Split(num_examples=np.zeros(0, np.int64), load=source)
  return ClientLoader(half, build.element_spec)


class DataAtWorkers:
  """Like `ClientLoader`, but returns references to data that workers load."""

  def __init__(
    self,
    spec: RunSpec,
    task: tasks.Task,
    split: Literal["train", "test", "validation"],
  ) -> None:
    source = tasks.ClientSource(
      task=spec.task,
      options=spec.task_options,
      seed=spec.seeds.data,
      data_dir=spec.data_dir,
      split=split,
      validation_fraction=spec.validation_share,
    )
    self._split = getattr(task, split)
    self._build = _DatasetBuilder(source, source.version, task.element_spec)

  def __call__(self, client_ids: Ids) -> list[runtime.DataAtWorker]:
    """Returns references to the clients' data at workers."""
    ids = np.asarray(client_ids).tolist()
    return [runtime.DataAtWorker(self._build, client_id) for client_id in ids]

  def prepare(self, client_ids: Ids) -> None:
    """Does nothing: workers load data when they need them."""

  def label_variance(self, client_id: int) -> float:
    """Returns the variance of a client's labels, which must be numbers."""
    return scoring.variance(self._split.load(client_id)[1])


ClientDatasets: TypeAlias = ClientLoader | DataAtWorkers


class RunData(NamedTuple):
  """The clients' training, test and validation data."""

  train: ClientDatasets
  test: ClientDatasets
  validation: ClientDatasets | None = None


@contextlib.contextmanager
def open_datasets(task: tasks.Task) -> Iterator[RunData]:
  """Yields loaders of a task's data that share a thread in this context."""
  with concurrent.futures.ThreadPoolExecutor(1) as thread:
    load = functools.partial(
      ClientLoader, spec=task.element_spec, thread=thread
    )
    yield RunData(
      load(task.train),
      load(task.test),
      None if task.validation is None else load(task.validation),
    )
