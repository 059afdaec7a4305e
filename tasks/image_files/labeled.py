"""What a reader returns: images with their labels."""

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


def check_labels(labels: np.ndarray, num_classes: int, source: str) -> None:
  """Checks that labels are class numbers.

  Raises:
    DataError: If one is not; says which.
  """
  wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))
  if len(wrong) > 0:
    raise DataError(
      f"{source}: example {wrong[0]} has label {labels[wrong[0]]}, expected 0 "
      f"to {num_classes - 1}."
    )
