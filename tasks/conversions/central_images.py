"""Images that come without clients, dealt out to clients that are made up."""

from collections.abc import Callable, Iterator, Sequence
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
  """

  labels: np.ndarray
  splits: Sequence[str]
  serialized: Callable[[int], bytes]


def deal(
  images: CentralImages,
  clients: Sequence[np.ndarray],
  *,
  keep_splits: bool,
  on_example: Callable[[int], object],
) -> Iterator[Example]:
  """Yields the examples of made-up clients.

  Args:
    images: The images.
    clients: Positions of each client's images.
    keep_splits: Whether images stay in the half they are published in; if not,
      that is left to the cut.
    on_example: Called with 1 after each image.
  """
  width = len(str(len(clients) - 1))
  for number, positions in enumerate(clients):
    for position in positions:
      yield Example(
        f"client_{number:0{width}}",
        images.serialized(position),
        images.splits[position] if keep_splits else None,
      )
      on_example(1)
