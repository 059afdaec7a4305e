"""Images, which have clients or are dealt out to clients that are made up."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tasks.conversions.client_data_file import Example


class CentralImages(NamedTuple):
  """Images whose labels are known before they are read.

  Attributes:
    labels: Labels, int64[num_examples].
    splits: The half of each image in the data as published, "train" or "test";
      empty where it has no halves.
    serialized: Returns the `tf.train.Example` of the image at a position.
    clients: The client of each image; empty where images come without.
    classes: The names of the classes in the order of their numbers; empty
      where the data has none.
  """

  labels: np.ndarray
  splits: Sequence[str]
  serialized: Callable[[int], bytes]
  clients: Sequence[str] = ()
  classes: Sequence[str] = ()


def deal(
  images: CentralImages,
  clients: Mapping[str, np.ndarray],
  *,
  keep_splits: bool,
  on_example: Callable[[int], object],
) -> Iterator[Example]:
  """Yields the examples, client by client.

  Args:
    images: The images.
    clients: Positions of each client's images, by the client's name.
    keep_splits: Whether images stay in the half they are published in; if not,
      that is left to the cut.
    on_example: Called with 1 after each image.
  """
  for name, positions in clients.items():
    for position in positions:
      yield Example(
        name,
        images.serialized(position),
        images.splits[position] if keep_splits else None,
      )
      on_example(1)
