"""Images with their labels, as readers return them."""

import dataclasses

import numpy as np

from tasks.data_error import DataError


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LabeledImages:
  """Images in memory, in the order of their files.

  Attributes:
    images: uint8[n, height, width, channels].
    labels: Class numbers, int32[n].
    source: The files, for error messages.
  """

  images: np.ndarray
  labels: np.ndarray
  source: str

  def __post_init__(self) -> None:
    if len(self.images) != len(self.labels):
      raise DataError(
        f"{self.source}: {len(self.images):,} images, but "
        f"{len(self.labels):,} labels."
      )
