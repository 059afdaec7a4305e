"""Handwritten characters by writer: the Federated EMNIST of LEAF.

Caldas et al., "LEAF: A Benchmark for Federated Settings" (2018). Data from
TFF's native loader, `tff.simulation.datasets.emnist.load_data`.

The models have the layers and shapes of
`tff.simulation.baselines.emnist.create_character_recognition_task`. That task
itself does not serve: its seed is for unit tests (layer 1 under seed 0 equals
layer 0 under seed 1), its dropout does not repeat, its models return
probabilities, and it shuffles batches where a client here has whole arrays.
"""

import dataclasses
import functools
import pathlib
import typing
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

from tasks import cuts, models, options, task
from tasks.data_error import DataError
from tasks.federated import native_clients
from tasks.formats import example_checks, sqlite_file
from tasks.models.names import HIDDEN_UNITS

if typing.TYPE_CHECKING:
  import tensorflow as tf
  import tensorflow_federated as tff

_FILENAME = "emnist_all.sqlite"
_IMAGE_SHAPE = (28, 28, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(options.TaskOptions):
  """Options of the task `emnist_character`.

  Attributes:
    only_digits: Whether the data are the digits alone (10 classes) or letters
      too (62 classes).
    num_clients: Number of writers, chosen at random; none takes all.
    model: The classifier. "cnn": two convolutions and two dense layers, as in
      McMahan et al. "cnn_dropout": the network with dropout of Reddi et al.
      "cnn_leaf": LEAF's, with 2,048 dense units. "mlp": two hidden layers of
      200 units; "mlp_128": one of 128.
    synthetic: Whether the data are the two made-up writers that TFF has for
      tests, which need no file.
  """

  only_digits: bool = True
  num_clients: int | None = None
  model: Literal["cnn", "cnn_dropout", "cnn_leaf", "mlp", "mlp_128"] = "cnn"
  synthetic: bool = False

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require_at_least(1, "num_clients")


@dataclasses.dataclass(frozen=True)
class _Half:
  """Train or test half of all writers."""

  client_data: "tff.simulation.datasets.ClientData"
  counts: Mapping[str, int]
  source: str


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task, as `registry.TaskModule.load` says.

  `data_dir` is the directory of `emnist_all.sqlite`, which TFF's loader
  downloads if it is not there; None means TFF's own cache, ~/.tff.

  Returns:
    The task; x is float32[n, 28, 28, 1] in [0, 1] with background 1 as TFF has
    it, y is int32[n]: digits 0 ... 9, then upper case, then lower case.

  Raises:
    DataError: If the data can be neither found nor fetched, or is unusable.
    ValueError: If there are fewer writers than asked for.
  """
  load_halves = _synthetic if config.synthetic else _from_file
  train, test = load_halves(config, data_dir)
  num_classes = 10 if config.only_digits else 62
  names, left_out = _writers(train, test)
  positions = cuts.random_subset(
    len(names), config.num_clients, seed, what="writers in the data"
  )
  chosen = tuple(names[k] for k in positions)

  to_arrays = functools.partial(_to_arrays, num_classes=num_classes)
  train_split, test_split = (
    native_clients.split(
      half.client_data, chosen, half.counts, to_arrays, source=half.source
    )
    for half in (train, test)
  )
  data = "synthetic test images" if config.synthetic else "EMNIST"
  of_all = "" if len(chosen) == len(names) else f" of {len(names):,}"
  return task.Task(
    name="emnist_character",
    description=(
      f"{data}, {num_classes} classes: {len(chosen):,}{of_all} writers "
      f"({left_out:,} without train or test examples left out), "
      f"{task.count_examples(train_split, test_split)}"
    ),
    client_names=chosen,
    train=train_split,
    test=test_split,
    element_spec=task.element_spec(_IMAGE_SHAPE),
    num_classes=num_classes,
    keras_model_fn=functools.partial(
      _builder(config.model), num_classes=num_classes, seed=model_seed
    ),
    objective=models.class_objective(),
  )


def _builder(model: str) -> "Callable[..., tf.keras.Model]":
  match model:
    case "cnn":
      return models.fedavg_cnn
    case "cnn_dropout":
      return models.dropout_cnn
    case "cnn_leaf":
      return functools.partial(models.fedavg_cnn, dense_units=2048)
  hidden_units = HIDDEN_UNITS[model]
  return functools.partial(models.mlp, _IMAGE_SHAPE, hidden_units)


def _from_file(
  config: Options, data_dir: pathlib.Path | None
) -> tuple[_Half, _Half]:
  import tensorflow_federated as tff  # noqa: PLC0415

  load = functools.partial(
    tff.simulation.datasets.emnist.load_data, config.only_digits
  )
  path = sqlite_file.find(_FILENAME, data_dir, load)
  kinds = {True: "digits_only", False: "all"}
  kind, other_kind = kinds[config.only_digits], kinds[not config.only_digits]
  splits = [f"{kind}_train", f"{kind}_test"]
  other = str(not config.only_digits).lower()
  counts = sqlite_file.example_counts(
    path,
    splits,
    advice=f"Option only_digits={other} takes {other_kind}_* instead.",
  )
  halves = [
    _Half(client_data, counts_of_split, f"{path}, split {split}")
    for client_data, counts_of_split, split in zip(
      load(cache_dir=str(path.parent)), counts, splits, strict=True
    )
  ]
  return halves[0], halves[1]


def _synthetic(
  config: Options, data_dir: pathlib.Path | None
) -> tuple[_Half, _Half]:
  import tensorflow_federated as tff  # noqa: PLC0415

  del config, data_dir
  client_data = tff.simulation.datasets.emnist.get_synthetic()
  half = _Half(
    client_data,
    dict.fromkeys(client_data.client_ids, 10),
    "tff.simulation.datasets.emnist.get_synthetic()",
  )
  return half, half


def _writers(train: _Half, test: _Half) -> tuple[list[str], int]:
  everyone = sorted(train.counts.keys() | test.counts.keys())
  names = [
    name
    for name in everyone
    if train.counts.get(name, 0) > 0 and test.counts.get(name, 0) > 0
  ]
  if not names:
    raise DataError(
      train.source,
      f"none of the {len(everyone)} writers has examples both here and in "
      f"{test.source}.",
    )
  return names, len(everyone) - len(names)


def _to_arrays(
  examples: Mapping[str, np.ndarray], *, num_classes: int
) -> task.Arrays:
  pixels, labels = examples["pixels"], examples["label"]
  example_checks.check_pixels(pixels)
  example_checks.class_labels(labels, num_classes)
  return pixels[..., np.newaxis], labels
