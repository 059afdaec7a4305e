"""Handwritten characters by writer: the Federated EMNIST of LEAF.

Caldas et al., "LEAF: A Benchmark for Federated Settings" (2018). Data from
TFF's native loader, `tff.simulation.datasets.emnist.load_data`.

The models are built here, equal in layers and shapes to those of
`tff.simulation.baselines.emnist.create_character_recognition_task`, instead of
taken from there: its seed is meant for unit tests (layer 1 under seed 0 equals
layer 0 under seed 1), its dropout does not repeat, its outputs are
probabilities, and its data come as shuffled batches instead of whole arrays.
"""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tasks import models, native_data, options, partition, sqlite_file, task

_FILENAME = "emnist_all.sqlite"
_IMAGE_SHAPE = (28, 28, 1)
_MODELS: Mapping[str, Callable[..., tf.keras.Model]] = {
  "cnn": models.fedavg_cnn,
  "cnn_dropout": models.dropout_cnn,
  "cnn_leaf": functools.partial(models.fedavg_cnn, dense_units=2048),
  "mlp": functools.partial(models.mlp, _IMAGE_SHAPE, (200, 200)),
  "mlp_128": functools.partial(models.mlp, _IMAGE_SHAPE, (128,)),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmnistCharacterOptions(options.TaskOptions):
  """Options of the task `emnist_character`.

  Attributes:
    only_digits: Digits alone (10 classes), or letters too (62 classes).
    num_clients: Size of a random subset of the writers; None takes all.
    model: "cnn" of McMahan et al. (two convolutions, two dense layers),
      "cnn_dropout" of Reddi et al., "cnn_leaf" of LEAF (2,048 dense units),
      "mlp" with two hidden layers of 200 units, or "mlp_128" with one of 128.
    synthetic: Instead of the real data, the two made-up writers that TFF has
      for tests; no file is needed.
  """

  only_digits: bool = True
  num_clients: int | None = None
  model: Literal["cnn", "cnn_dropout", "cnn_leaf", "mlp", "mlp_128"] = "cnn"
  synthetic: bool = False

  def __post_init__(self) -> None:
    super().__post_init__()
    self.require(
      "num_clients",
      self.num_clients is None or self.num_clients >= 1,
      "at least 1, or none for all writers",
    )


@dataclasses.dataclass(frozen=True)
class _Half:
  """Train or test half of all writers."""

  client_data: tff.simulation.datasets.ClientData
  counts: Mapping[str, int]
  source: str


def load_emnist_character(
  config: EmnistCharacterOptions, *, data_dir: pathlib.Path | None, seed: int
) -> task.Task:
  """Builds the task.

  Args:
    config: Options of the task.
    data_dir: Directory of `emnist_all.sqlite`, which TFF's loader downloads if
      it is not there; None means TFF's own cache, ~/.tff.
    seed: Seed of the choice of writers and of the model.

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
  chosen = _choose(names, config.num_clients, seed)

  to_arrays = functools.partial(_to_arrays, num_classes=num_classes)
  train_split, test_split = (
    native_data.split(
      half.client_data, chosen, half.counts, to_arrays, source=half.source
    )
    for half in (train, test)
  )
  element_spec = (
    tf.TensorSpec([None, *_IMAGE_SHAPE], tf.float32),
    tf.TensorSpec([None], tf.int32),
  )
  build_model = functools.partial(
    _MODELS[config.model], num_classes=num_classes, seed=seed
  )
  data = "synthetic test images" if config.synthetic else "EMNIST"
  of_all = "" if len(chosen) == len(names) else f" of {len(names):,}"
  return task.Task(
    name="emnist_character",
    description=(
      f"{data}, {num_classes} classes: {len(chosen):,}{of_all} writers "
      f"({left_out:,} without train or test examples left out), "
      f"{train_split.num_examples.sum():,} train and "
      f"{test_split.num_examples.sum():,} test examples"
    ),
    client_names=chosen,
    train=train_split,
    test=test_split,
    element_spec=element_spec,
    num_classes=num_classes,
    model_fn=models.model_fn(build_model, element_spec),
    functional_model_fn=models.functional_model_fn(build_model, element_spec),
  )


def _from_file(
  config: EmnistCharacterOptions, data_dir: pathlib.Path | None
) -> tuple[_Half, _Half]:
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
  config: EmnistCharacterOptions, data_dir: pathlib.Path | None
) -> tuple[_Half, _Half]:
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
    raise task.DataError(
      f"{train.source}: none of the {len(everyone)} writers has examples both "
      f"here and in {test.source}."
    )
  return names, len(everyone) - len(names)


def _choose(
  names: list[str], num_clients: int | None, seed: int
) -> tuple[str, ...]:
  if num_clients is None:
    return tuple(names)
  if num_clients > len(names):
    raise ValueError(
      f"num_clients must be at most {len(names)}, the number of writers in the "
      f"data; found {num_clients}."
    )
  chosen = partition.generator(seed).choice(
    len(names), num_clients, replace=False
  )
  return tuple(names[k] for k in sorted(chosen))


def _to_arrays(
  examples: Mapping[str, np.ndarray], *, num_classes: int
) -> task.Arrays:
  pixels, labels = examples["pixels"], examples["label"]
  # Written so that NaN is out of range too.
  if not np.all((pixels >= 0) & (pixels <= 1)):
    raise ValueError(
      f"pixels range from {pixels.min()} to {pixels.max()}, expected 0 to 1"
    )
  if labels.min() < 0 or labels.max() >= num_classes:
    raise ValueError(
      f"labels range from {labels.min()} to {labels.max()}, "
      f"expected 0 to {num_classes - 1}"
    )
  return pixels[..., np.newaxis], labels
