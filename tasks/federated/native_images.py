"""All images of one of TFF's native data sets, and whose they are."""

import pathlib
import typing
from collections.abc import Mapping, Sequence

import numpy as np

from tasks.data_error import DataError
from tasks.federated import native_clients
from tasks.formats.labeled_images import LabeledImages

if typing.TYPE_CHECKING:
  import tensorflow_federated as tff


def read_halves(
  path: pathlib.Path,
  halves: Sequence[
    tuple[str, "tff.simulation.datasets.ClientData", Mapping[str, int]]
  ],
  to_arrays: native_clients.ToArrays,
) -> tuple[tuple[LabeledImages, LabeledImages], np.ndarray]:
  """Reads every client of the training and of the test half.

  Args:
    path: The file, for error messages.
    halves: Name, data and numbers of examples by client, of both halves.
    to_arrays: Maps a client's examples to images, uint8, and labels, and leaves
      out those that are not wanted.

  Returns:
    Training and test images, and the client of each image, training first.

  Raises:
    DataError: If an example is not as it must be, or none is left.
  """
  images, users = [], []
  for split_name, client_data, counts in halves:
    source = f"{path}, split {split_name}"
    names = sorted(name for name, count in counts.items() if count > 0)
    split = native_clients.split_of(
      native_clients.reader(client_data),
      names,
      np.array([counts[name] for name in names], np.int64),
      to_arrays,
      source=source,
    )
    arrays = [split.load(k) for k in range(len(names))]
    if not any(len(labels) > 0 for _, labels in arrays):
      raise DataError(f"{source}: has none of the images wanted.")
    x, y = (np.concatenate(parts) for parts in zip(*arrays, strict=True))
    images.append(
      LabeledImages(images=x, labels=y.astype(np.int32), source=source)
    )
    users.append(np.repeat(names, [len(labels) for _, labels in arrays]))
  train, test = images
  return (train, test), np.concatenate(users)
