"""Handwritten digits that come with scikit-learn: a task without downloads.

1,797 images of 8 x 8 pixels by 13 writers, the test set of Alpaydin and Kaynak,
"Optical Recognition of Handwritten Digits" (UCI, 1998). The writers of the
images are not recorded, so the clients are artificial: see `partition`.
"""

import dataclasses
import pathlib
from typing import Literal

import numpy as np

from tasks import central, models, task
from tff_fair import declared

_NUM_EXAMPLES = 1797
_NUM_PIXELS = 64
_NUM_CLASSES = 10
_MAX_PIXEL = 16.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(central.CutOptions):
  """Options of the task `digits`."""

  num_clients: int | None = 30
  test_data: central.TestData = "local"
  model: Literal["mlp_64", "logistic_regression"] = declared.value(
    "mlp_64",
    'The classifier: "mlp_64" has one hidden layer of 64 units, '
    '"logistic_regression" has none.',
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    most_clients = _NUM_EXAMPLES // 2
    self.require(
      "num_clients",
      self.num_clients is None or self.num_clients <= most_clients,
      f"between 1 and {most_clients} (each client trains on one of the "
      f"{_NUM_EXAMPLES} examples and is tested on another)",
    )


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, 64] in [0, 1], y is int32[n]."""
  del data_dir
  # Imported late: only this task needs it.
  import sklearn.datasets  # noqa: PLC0415

  pixels, labels = sklearn.datasets.load_digits(return_X_y=True)
  x = (pixels / _MAX_PIXEL).astype(np.float32)
  y = labels.astype(np.int32)

  data = central.CentralData(
    title=f"{_NUM_EXAMPLES:,} real handwritten 8x8 digits",
    source="sklearn.datasets.load_digits()",
    labels=y,
    num_train=_NUM_EXAMPLES,
    load_x=lambda positions: x[positions],
    x_shape=(_NUM_PIXELS,),
    class_names=tuple(map(str, range(_NUM_CLASSES))),
  )
  keras_model_fn = models.dense_classifier(
    config.model, data.x_shape, _NUM_CLASSES, model_seed
  )
  return central.build_task("digits", config, data, keras_model_fn, seed=seed)
