"""Image data sets that stay on disk: a client's images are read for it."""

from collections.abc import Sequence

import numpy as np

from tasks.central.data import CentralData
from tasks.formats import image_folders


def on_disk(
  title: str,
  halves: tuple[image_folders.LabeledPaths, image_folders.LabeledPaths],
  class_names: Sequence[str],
  image_size: int,
  *,
  resize: bool = False,
) -> CentralData:
  """Returns images in files as a central data set.

  Args:
    title: The images in a few words.
    halves: Training and test images.
    class_names: Name of each class.
    image_size: Height and width that images have, or are given.
    resize: Whether those of another size are resized.

  Returns:
    The data set; images are divided by 255.
  """
  images = image_folders.joined(halves)

  def load_x(positions: np.ndarray) -> np.ndarray:
    pixels = image_folders.read_images(
      images.root, images.paths[positions], image_size, resize=resize
    )
    return pixels.astype(np.float32) / np.float32(255.0)

  return CentralData(
    title=title,
    source=images.source,
    labels=images.labels,
    num_train=len(halves[0].labels),
    load_x=load_x,
    x_shape=(image_size, image_size, 3),
    class_names=class_names,
  )
