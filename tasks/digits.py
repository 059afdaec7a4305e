"""Handwritten digits that come with scikit-learn: the embedded default task.

1,797 images of 8 x 8 pixels by 13 writers, the test set of Alpaydin and Kaynak,
"Optical Recognition of Handwritten Digits" (UCI, 1998). Who wrote which is not
recorded; clients are cut by label, by Dirichlet proportions or at random.
"""

import dataclasses
import functools
import pathlib
from typing import Literal

import numpy as np
import tensorflow as tf

from tasks import models, options, partition, task

_NUM_EXAMPLES = 1797
_NUM_PIXELS = 64
_NUM_CLASSES = 10
_MAX_PIXEL = 16.0
# Fewer examples than this measure no client's accuracy; usual for Dirichlet.
_MIN_DIRICHLET_SIZE = 10


@dataclasses.dataclass(frozen=True, kw_only=True)
class DigitsOptions(options.TaskOptions):
  """Options of the task `digits`.

  Attributes:
    num_clients: Number of clients.
    partition: How examples are cut over clients.
    shards_per_client: With partition "shards": shards of a client, roughly its
      number of different labels.
    concentration: With partition "dirichlet": the smaller, the more skewed.
    test_fraction: Share of a client's examples that are held out for testing.
    model: A network with one hidden layer of 64 units, or logistic regression.
  """

  num_clients: int = 30
  partition: Literal["shards", "dirichlet", "iid"] = "shards"
  shards_per_client: int = 2
  concentration: float = 0.5
  test_fraction: float = 0.2
  model: Literal["mlp", "logistic_regression"] = "mlp"

  def __post_init__(self) -> None:
    super().__post_init__()
    most_clients = _NUM_EXAMPLES // 2
    self.require(
      "num_clients",
      1 <= self.num_clients <= most_clients,
      f"between 1 and {most_clients} (each client trains on one of the "
      f"{_NUM_EXAMPLES} examples and is tested on another)",
    )
    self.require(
      "shards_per_client",
      1 <= self.shards_per_client <= _NUM_EXAMPLES // self.num_clients,
      f"between 1 and {_NUM_EXAMPLES // self.num_clients} with "
      f"{self.num_clients} clients of {_NUM_EXAMPLES} examples",
    )
    least, most = partition.CONCENTRATION_RANGE
    self.require(
      "concentration",
      least <= self.concentration <= most,
      f"between {least:g} and {most:g}",
    )
    self.require("test_fraction", 0 < self.test_fraction < 1, "between 0 and 1")


def load_digits(
  config: DigitsOptions, *, data_dir: pathlib.Path | None, seed: int
) -> task.Task:
  """Builds the task.

  Args:
    config: Options of the task.
    data_dir: Not used: the data is part of scikit-learn.
    seed: Seed of the partition, the train and test split and the model.

  Returns:
    The task; x is float32[n, 64] in [0, 1], y is int32[n] in 0 ... 9.
  """
  del data_dir
  # Imported late: only this task needs it.
  import sklearn.datasets  # noqa: PLC0415

  pixels, labels = sklearn.datasets.load_digits(return_X_y=True)
  x = (pixels / _MAX_PIXEL).astype(np.float32)
  y = labels.astype(np.int32)

  splits = [
    partition.train_test_split(part, config.test_fraction, (seed, client_id))
    for client_id, part in enumerate(_partition(config, y, seed))
  ]
  train, test = (_split(x, y, parts) for parts in zip(*splits, strict=True))
  element_spec = (
    tf.TensorSpec([None, _NUM_PIXELS], tf.float32),
    tf.TensorSpec([None], tf.int32),
  )
  width = len(str(config.num_clients - 1))
  return task.Task(
    name="digits",
    description=(
      f"{_NUM_EXAMPLES:,} real handwritten 8x8 digits over "
      f"{config.num_clients} clients {_how_cut(config)}: "
      f"{train.num_examples.sum():,} train and "
      f"{test.num_examples.sum():,} test examples"
    ),
    client_names=tuple(
      f"client_{k:0{width}}" for k in range(config.num_clients)
    ),
    train=train,
    test=test,
    element_spec=element_spec,
    num_classes=_NUM_CLASSES,
    model_fn=models.model_fn(
      functools.partial(
        models.mlp,
        (_NUM_PIXELS,),
        {"mlp": (64,), "logistic_regression": ()}[config.model],
        _NUM_CLASSES,
        seed,
      ),
      element_spec,
    ),
  )


def _partition(
  config: DigitsOptions, labels: np.ndarray, seed: int
) -> list[np.ndarray]:
  if config.partition == "shards":
    return partition.label_shards(
      labels, config.num_clients, config.shards_per_client, seed
    )
  if config.partition == "dirichlet":
    return partition.dirichlet(
      labels,
      config.num_clients,
      config.concentration,
      seed,
      min_size=min(_MIN_DIRICHLET_SIZE, len(labels) // config.num_clients),
    )
  return partition.iid(len(labels), config.num_clients, seed)


def _how_cut(config: DigitsOptions) -> str:
  return {
    "shards": f"by label shards ({config.shards_per_client} each)",
    "dirichlet": f"by Dirichlet({config.concentration:g}) over labels",
    "iid": "at random",
  }[config.partition]


def _split(
  x: np.ndarray, y: np.ndarray, parts: tuple[np.ndarray, ...]
) -> task.Split:
  return task.Split(
    num_examples=np.array([len(part) for part in parts], np.int64),
    load=lambda client_id: (x[parts[client_id]], y[parts[client_id]]),
  )
