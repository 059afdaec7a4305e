"""Checks that workers have the data of a folder, in the version of its index.

This machine, or each of Dask's workers, reads the version at the end of each
file. This finds files that are missing, cut off or of another version. Bytes
that changed since they were written are not found: to read all of them would
take as long as training.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from tff_fair import runtime
from tff_fair.declared import FieldError
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.worker_data import index
from tff_fair.experiments.worker_data.index import ArrayFile, WorkerData

_Found = TypeVar("_Found")


def check(data: WorkerData) -> None:
  """Checks that each worker has the files.

  Args:
    data: The folder.

  Raises:
    FieldError: If one has not, or does not answer; names the host and the file.
  """
  files = [file for split in index.SPLITS for file in data.files(split)]
  sizes = [(data.path(file), file.num_bytes) for file in files]
  found = _ask(index.problem_here, sizes, data.version)
  for host, problem in found.items():
    if problem is not None:
      raise data.error(f"{host}: {problem}; copy the folder there, as a whole.")


def _ask(
  find: Callable[..., _Found], *arguments: object
) -> Mapping[str, _Found]:
  """Returns what each host finds in its files."""
  if runtime.builds_data():
    return runtime.ask_workers(find, *arguments)
  return {"this machine": find(*arguments)}


# Labels that the task does not have.


@contextlib.contextmanager
def blaming_labels(data: WorkerData | None) -> Iterator[None]:
  """Has an error that wrong labels at the workers may cause name them.

  Args:
    data: The folder, if workers have the data.

  Raises:
    FieldError: As `check`, instead of the error.
  """
  try:
    yield
  except (RunError, FieldError, runtime.WorkerLostError):
    raise
  except Exception:
    if data is not None:
      _check_labels(data)
    raise


def _check_labels(data: WorkerData) -> None:
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
    found = _ask(index.no_class_here, *arguments)
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
