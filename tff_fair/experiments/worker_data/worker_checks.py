"""Checks that workers have the data of a folder, in the version of its index.

A TFF worker maps each file, as long as the index says, and reads the version at
its end. This machine and Dask's workers read the version in Python. This finds
files that are missing, cut off or of another version. Bytes that changed since
they were written are not found: to read all of them would take a worker as long
as training.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.declared import FieldError
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.worker_data import index
from tff_fair.experiments.worker_data.index import ArrayFile, WorkerData

_Found = TypeVar("_Found")
# A few bytes of each file.
_SECONDS_TO_READ = 30.0


def check(data: WorkerData, workers: Iterable[str] = ()) -> None:
  """Checks that each worker has the files.

  Args:
    data: The folder.
    workers: Addresses of TFF workers; without any, it is the workers of Dask,
      or the one worker, that this program computes in.

  Raises:
    FieldError: If one has not, or does not answer; names the host and the file.
  """
  files = [file for split in index.SPLITS for file in data.files(split)]
  sizes = [(data.path(file), file.num_bytes) for file in files]
  found = _ask(
    workers, index.problem_here, _problem_at_worker, sizes, data.version
  )
  for host, problem in found.items():
    if problem is not None:
      raise data.error(f"{host}: {problem}; copy the folder there, as a whole.")


def _ask(
  workers: Iterable[str],
  here: Callable[..., _Found],
  at_worker: Callable[..., _Found],
  *arguments: object,
) -> Mapping[str, _Found]:
  """Returns what each host finds in its files.

  Args:
    workers: As for `check`.
    here: Finds it in Python: on this machine, and in Dask's workers.
    at_worker: Finds the same in a TFF worker.
    *arguments: Those of both functions.
  """
  if runtime.builds_data():
    return runtime.ask_workers(here, *arguments)
  found = {}
  try:
    for address in workers:
      with runtime.in_worker(address, call_timeout=_SECONDS_TO_READ):
        found[address] = at_worker(*arguments)
  except ConnectionError as error:
    raise FieldError("workers", str(error)) from error
  return found or {"this machine": here(*arguments)}


def _problem_at_worker(
  files: Sequence[tuple[str, int]], version: str
) -> str | None:
  """Returns what `index.problem_here` does, of a TFF worker."""
  for path, num_bytes in files:
    try:
      if not _exists(path):
        return f"{path} {index.IS_MISSING}"
      if _version(path, num_bytes) != version.encode():
        return f"{path} {index.IS_ANOTHER}"
    except TimeoutError:
      return f"{path} {index.IS_NOT_READ}"
    except Exception as error:
      if not _is_of_file(error):
        raise
      return f"{path} {index.IS_SHORTER}"
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


# Labels that the task does not have.


@contextlib.contextmanager
def blaming_labels(
  data: WorkerData | None, workers: Iterable[str]
) -> Iterator[None]:
  """Has an error that wrong labels at the workers may cause name them.

  Args:
    data: The folder, if workers have the data.
    workers: As for `check`.

  Raises:
    FieldError: As `check`, instead of the error.
  """
  try:
    yield
  except (RunError, FieldError, runtime.WorkerLostError):
    raise
  # TensorFlow's error comes from a worker, as a text of gRPC's.
  except Exception:
    if data is not None:
      _check_labels(data, workers)
    raise


def _check_labels(data: WorkerData, workers: Iterable[str] = ()) -> None:
  """Checks that the labels at each worker are classes, where they are integers.

  To read all labels before each run takes time, so this is for a run that
  failed.
  """
  num_classes = data.index["num_classes"]
  for split in index.SPLITS:
    file = data.files(split)[index.ARRAYS.index("y")]
    if num_classes is None or np.dtype(file.dtype).kind not in "iu":
      continue
    arguments = (data.path(file), file.num_bytes, file.dtype, num_classes)
    found = _ask(workers, index.no_class_here, _no_class, *arguments)
    for host, place in found.items():
      if place is not None:
        raise _label_error(data, split, file, host, *place)


def _label_error(
  data: WorkerData,
  split: str,
  file: ArrayFile,
  host: str,
  position: int,
  label: int,
) -> FieldError:
  labels_per_row = int(np.prod(file.shape, dtype=np.int64))
  client_id, row = data.owner(split, position // labels_per_row)
  return data.error(
    f"{host}: {data.path(file)} has the label {label} in row {row + 1} of "
    f"client {data.client_names[client_id]}, and the classes are 0 to "
    f"{data.index['num_classes'] - 1}; the file is damaged: copy the folder "
    "there, as a whole."
  )


def _no_class(
  path: str, num_bytes: int, dtype: str, num_classes: int
) -> tuple[int, int] | None:
  """Returns what `index.no_class_here` does, of a TFF worker."""
  number = num_bytes // np.dtype(dtype).itemsize

  @tff.tensorflow.computation
  def first() -> tf.Tensor:
    found = tf.raw_ops.ImmutableConst(
      dtype=tf.as_dtype(np.dtype(dtype)),
      shape=[number],
      memory_region_name=path,
    )
    labels = tf.cast(found, tf.int64)
    wrong = tf.where((labels < 0) | (labels >= num_classes))[:1, 0]
    return tf.stack([wrong, tf.gather(labels, wrong)])

  position, label = np.asarray(first())
  return (int(position[0]), int(label[0])) if position.size else None
