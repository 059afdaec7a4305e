"""Clothing1M, a million images with noisy labels, divided among clients.

Xiao et al., "Learning from Massive Noisy Labeled Data for Image Classification"
(CVPR 2015). Training uses the noisy labels, testing the clean ones. The default
of 500 clients is from FedCorr (Xu et al., CVPR 2022), whose setting AdaFed
follows. FedCorr's code gives a client each class with probability 0.7, and
divides each class by Dirichlet(10) among the clients that have it. The defaults
here are Dirichlet(0.5), and a ResNet-18 instead of a pretrained ResNet-50.
"""

import dataclasses
import pathlib
from collections.abc import Iterator

from tasks import central, task
from tasks.data_error import DataError
from tasks.formats import data_files, images
from tff_fair import declared

CLASS_NAMES = (
  *("t_shirt", "shirt", "knitwear", "chiffon", "sweater"),
  *("hoodie", "windbreaker", "jacket", "downcoat", "suit"),
  *("shawl", "dress", "vest", "underwear"),
)
# The lists of images and of labels; some copies have a folder for these files.
_TRAIN = ("noisy_train_key_list.txt", "noisy_label_kv.txt")
_TEST = ("clean_test_key_list.txt", "clean_label_kv.txt")
_LISTS_FOLDER = "annotations"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(central.ModelOptions):
  """Options of the task `clothing1m`."""

  num_clients: int | None = 500
  partition: central.Partition = "dirichlet"
  model: central.ImageModelName = "resnet18"
  image_size: int = declared.value(
    224,
    "Height and width, in pixels, that each image is resized to.",
    minimum=8,
  )


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, image_size, image_size, 3], y is int32[n].

  `data_dir` has the folder `images` and the published lists, possibly in a
  folder `annotations`. Images are read on demand.
  """
  files = f"the folder images and {', '.join((*_TRAIN, *_TEST))}"
  root = data_files.require(data_dir, what="Clothing1M", files=files)
  lists = root / _LISTS_FOLDER if (root / _LISTS_FOLDER).is_dir() else root
  data = central.images_on_disk(
    "Clothing1M",
    (_listed(root, lists, *_TRAIN), _listed(root, lists, *_TEST)),
    CLASS_NAMES,
    config.image_size,
    resize=True,
  )
  return central.build_image_task(
    "clothing1m", config, data, seed=seed, model_seed=model_seed
  )


def _listed(
  root: pathlib.Path, lists: pathlib.Path, keys: str, key_labels: str
) -> images.LabeledPaths:
  label_of = {}
  for place, text in images.lines(lists / key_labels):
    path, _, label = text.rpartition(" ")
    if not path or not label.isdecimal() or int(label) >= len(CLASS_NAMES):
      raise DataError(
        place,
        f"expected an image and a label from 0 to {len(CLASS_NAMES) - 1}, "
        f"found {text!r}.",
      )
    label_of[path] = int(label)

  def found() -> Iterator[tuple[str, int]]:
    for place, key in images.lines(lists / keys):
      if key not in label_of:
        raise DataError(place, f"{key!r} has no label in {key_labels}.")
      yield key, label_of[key]

  return images.paths_from_list(root, lists / keys, found())
