"""Checks that workers have the data of a folder, in the version of its index.

A TFF worker maps each file, as long as the index says, and reads the version at
its end. This machine and Dask's workers read the version in Python. This finds
files that are missing, cut off or of another version. Bytes that changed since
they were written are not found: to read all of them would take a worker as long
as training.
"""

from collections.abc import Iterable

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.experiments.errors import SpecError
from tff_fair.experiments.worker_data import at_host, index
from tff_fair.experiments.worker_data.index import ArrayFile, WorkerData


def check(data: WorkerData, workers: Iterable[str] = ()) -> None:
  """Checks that each worker has the files.

  Args:
    data: The folder.
    workers: Addresses of TFF workers; without any, it is the workers of Dask,
      or the one worker, that this program computes in.

  Raises:
    SpecError: If one has not; names the host and the file.
    ConnectionError: If one does not answer.
  """
  files = [file for split in index.SPLITS for file in data.files(split)]
  sizes = [(data.path(file), file.num_bytes) for file in files]
  if runtime.builds_data():
    asked = runtime.ask_workers(at_host.problem, sizes, data.version)
    for host, problem in asked.items():
      _raise(data, host, problem)
  elif not (addresses := list(workers)):
    _raise(data, "this machine", at_host.problem(sizes, data.version))
  else:
    for address in addresses:
      with runtime.in_worker(address):
        _check(data, files, address)


def _raise(data: WorkerData, host: str, problem: str | None) -> None:
  """Raises a `SpecError` if a host has a problem."""
  if problem is not None:
    raise SpecError(
      "worker_data",
      f"{host}: {problem}; copy the folder there, as a whole.",
      value=str(data.folder),
    )


def _check(data: WorkerData, files: Iterable[ArrayFile], host: str) -> None:
  for file in files:
    problem = _problem(data, file)
    _raise(data, host, problem and f"{data.path(file)} {problem}")


def _problem(data: WorkerData, file: ArrayFile) -> str | None:
  try:
    exists = _exists(data.path(file))
    found = _version(data.path(file), file.num_bytes) if exists else b""
  except Exception as error:
    if not _is_of_file(error):
      raise
    return at_host.IS_SHORTER
  if not exists:
    return at_host.IS_MISSING
  if found != data.version.encode():
    return at_host.IS_ANOTHER
  return None


def _is_of_file(error: Exception) -> bool:
  # What TensorFlow says of a region that it cannot map.
  return any(
    text in str(error) for text in ("AllocateRaw", "allocat", "region", "open")
  )


def _exists(path: str) -> bool:
  @tff.tensorflow.computation
  def exists() -> tf.Tensor:
    return tf.size(tf.io.matching_files(path)) > 0

  return bool(exists())


def _version(path: str, num_bytes: int) -> bytes:
  """Returns the version at the end of a file, as the worker reads it."""

  @tff.tensorflow.computation
  def last_bytes() -> tf.Tensor:
    content = tf.raw_ops.ImmutableConst(
      dtype=tf.uint8,
      shape=[num_bytes + index.VERSION_BYTES],
      memory_region_name=path,
    )
    return content[num_bytes:]

  return bytes(last_bytes())
