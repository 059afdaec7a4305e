"""Fashion-MNIST: three classes as clients, or all ten divided among clients.

Xiao et al., "Fashion-MNIST" (2017). The three clients shirt, pullover and
T-shirt are those of Mohri et al., "Agnostic Federated Learning" (ICML 2019).

Table 3 of Wang et al., "Federated Learning with Fair Averaging" (IJCAI 2021),
uses test_data=pooled, test_fraction=0.1, unused_fraction=0.1,
pixels=standardized, model=linear_double_softmax, initial_weights=pytorch.
"""

import dataclasses
import pathlib
from typing import Literal

from tasks import central, task
from tasks.formats import mnist
from tff_fair import declared

_CLASS_NAMES = (
  *("t_shirt", "trouser", "pullover", "dress", "coat"),
  *("sandal", "shirt", "sneaker", "bag", "ankle_boot"),
)
_TOPS = ("t_shirt", "pullover", "shirt")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(central.ImageOptions):
  """Options of `fashion_mnist`; by default three clients with a class each."""

  num_clients: int | None = None
  partition: central.Partition = "labels"
  model: central.ImageModelName = "mlp"
  classes: Literal["tops", "all"] = declared.value(
    "tops",
    'The classes of the data: "tops", which are shirt, pullover and T-shirt, '
    'or "all" ten.',
  )
  image_size: int = declared.positive_integer(
    28, "Height and width that images are resized to; AdaFed's are 32."
  )


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, image_size, image_size, 1], y is int32[n].

  With classes "tops", 0 is T-shirt, 1 pullover and 2 shirt. `data_dir` has the
  four idx files, or a folder `fashion_mnist` that has them, or in which
  tensorflow-datasets has prepared the data.
  """
  _, (train, test) = mnist.find_and_read(
    data_dir, "fashion_mnist", what="Fashion-MNIST"
  )
  if config.image_size != train.images.shape[1]:
    train, test = (half.resized(config.image_size) for half in (train, test))
  data = central.images_in_memory(
    "Fashion-MNIST", (train, test), _CLASS_NAMES, pixels=config.pixels
  )
  if config.classes == "tops":
    # The scale of the pixels comes from the images of all classes.
    data = central.select_classes(data, _TOPS)
  return central.build_image_task(
    "fashion_mnist", config, data, seed=seed, model_seed=model_seed
  )
