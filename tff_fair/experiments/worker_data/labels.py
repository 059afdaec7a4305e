"""Labels at the workers that the task does not have.

To read all labels before each run takes time, so this is for a run that failed.
"""

from collections.abc import Iterable

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.declared import FieldError
from tff_fair.experiments.worker_data import at_host, checking, index
from tff_fair.experiments.worker_data.index import ArrayFile, WorkerData


def check(data: WorkerData, workers: Iterable[str] = ()) -> None:
  """Checks that the labels at each worker are classes, where they are integers.

  Args:
    data: The folder.
    workers: As for `checking.check`.

  Raises:
    FieldError: If one is not; names the host, the file and the place.
  """
  num_classes = data.index["num_classes"]
  for split in index.SPLITS:
    file = data.files(split)[index.ARRAYS.index("y")]
    if num_classes is None or np.dtype(file.dtype).kind not in "iu":
      continue
    arguments = (data.path(file), file.num_bytes, file.dtype, num_classes)
    if runtime.builds_data():
      found = runtime.ask_workers(at_host.no_class, *arguments)
    elif addresses := list(workers):
      found = {address: _no_class(address, *arguments) for address in addresses}
    else:
      found = {"this machine": at_host.no_class(*arguments)}
    for host, place in found.items():
      if place is not None:
        raise _error(data, split, file, host, *place)


def _error(
  data: WorkerData,
  split: str,
  file: ArrayFile,
  host: str,
  position: int,
  label: int,
) -> FieldError:
  labels_per_row = int(np.prod(file.shape, dtype=np.int64))
  client_id, row = data.owner(split, position // labels_per_row)
  return FieldError(
    "worker_data",
    f"{host}: {data.path(file)} has the label {label} in row {row + 1} of "
    f"client {data.client_names[client_id]}, and the classes are 0 to "
    f"{data.index['num_classes'] - 1}; the file is damaged: copy the folder "
    "there, as a whole.",
    value=str(data.folder),
  )


def _no_class(
  address: str, path: str, num_bytes: int, dtype: str, num_classes: int
) -> tuple[int, int] | None:
  """Returns what `at_host.no_class` does, of a TFF worker."""
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

  with checking.at_worker(address):
    position, label = np.asarray(first())
  return (int(position[0]), int(label[0])) if position.size else None
