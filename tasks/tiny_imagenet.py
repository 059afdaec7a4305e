"""Tiny ImageNet, read from its folders and divided among clients.

Le and Yang, "Tiny ImageNet Visual Recognition Challenge" (2015): 100,000 images
of 64 x 64 pixels in 200 classes. The default is AdaFed's partition: 20 clients
by Dirichlet(0.05). The test images have no labels, so the validation images
serve as the published test data.
"""

import dataclasses
import pathlib
from collections.abc import Iterator

from tasks import central, task
from tasks.data_error import DataError
from tasks.formats import data_files, images

_FOLDER = "tiny-imagenet-200"
_IMAGE_SIZE = 64


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(central.ModelOptions):
  """Options of the task `tiny_imagenet`: those of tasks with images on disk."""

  num_clients: int | None = 20
  partition: central.Partition = "dirichlet"
  concentration: float = 0.05
  model: central.ImageModelName = "resnet18"


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, 64, 64, 3], y is int32[n].

  Classes are in the order of `wnids.txt`. `data_dir` has the folder
  `tiny-imagenet-200`, or is that folder. Images are read on demand.
  """
  files = f"the folder {_FOLDER}"
  root = data_files.require(data_dir, what="Tiny ImageNet", files=files)
  if (root / _FOLDER).is_dir():
    root = root / _FOLDER
  class_names = tuple(text for _, text in images.lines(root / "wnids.txt"))
  data = central.images_on_disk(
    "Tiny ImageNet",
    (
      images.class_folders(root, "train", class_names, "images"),
      _validation(root, class_names),
    ),
    class_names,
    _IMAGE_SIZE,
  )
  return central.build_image_task(
    "tiny_imagenet", config, data, seed=seed, model_seed=model_seed
  )


def _validation(
  root: pathlib.Path, class_names: tuple[str, ...]
) -> images.LabeledPaths:
  path = root / "val" / "val_annotations.txt"
  number = {name: label for label, name in enumerate(class_names)}

  def found() -> Iterator[tuple[str, int]]:
    for place, text in images.lines(path):
      # A line has an image, its class, and four numbers for its bounding box.
      image, *fields = text.split("\t")
      if not fields or fields[0] not in number:
        raise DataError(
          place, f"expected an image and a class of wnids.txt, found {text!r}."
        )
      yield f"val/images/{image}", number[fields[0]]

  return images.paths_from_list(root, path, found())
