"""Handwritten characters by writer: LEAF's Federated EMNIST.

Caldas et al., "LEAF: A Benchmark for Federated Settings" (2018). The data are
TFF's, `tff.simulation.datasets.emnist`.

The models have the layers and shapes of TFF's baseline task. That task itself
cannot be used: its seeds are for unit tests, and its dropout is not repeatable.
"""

import dataclasses
import functools
import pathlib
from typing import Literal

import numpy as np

from tasks import models, options, task
from tasks.formats import example_checks
from tasks.tff_native import native_clients
from tff_fair import declared

_IMAGE_SHAPE = (28, 28, 1)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(options.TaskOptions):
  """Options of the task `emnist_character`."""

  only_digits: bool = declared.value(
    True,
    "Whether to use only the digits (10 classes); otherwise letters, too (62 "
    "classes).",
  )
  num_clients: int | None = declared.positive_integer(
    None, "Number of writers, chosen at random; none means all."
  )
  model: Literal["cnn", "cnn_dropout", "cnn_leaf", "mlp", "mlp_128"] = (
    declared.value(
      "cnn",
      'The classifier. "cnn": two convolutions and two dense layers, as in '
      'McMahan et al. "cnn_dropout": the network with dropout of Reddi et al. '
      '"cnn_leaf": that of LEAF, with 2,048 dense units. "mlp": two hidden '
      'layers of 200 units; "mlp_128": one of 128.',
    )
  )
  synthetic: bool = declared.value(
    False,
    "Whether to use the two artificial writers that TFF has for tests, which "
    "need no file.",
  )


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, 28, 28, 1], y is int32[n].

  x is in [0, 1] with background 1; classes are the digits 0 ... 9, then upper
  case, then lower case. `data_dir` has TFF's `emnist_all.sqlite`, which is
  downloaded if it is missing; None means TFF's own cache, ~/.tff.
  """
  kinds = {True: "digits_only", False: "all"}
  kind, other_kind = kinds[config.only_digits], kinds[not config.only_digits]
  other = str(not config.only_digits).lower()
  everyone = native_clients.find(
    "emnist",
    data_dir,
    [f"{kind}_train", f"{kind}_test"],
    {"pixels": (_IMAGE_SHAPE[:2], "float32"), "label": ([], "int64")},
    synthetic=config.synthetic,
    advice=f"With the option only_digits={other} the task reads {other_kind}_* "
    "instead.",
  )
  chosen, writers = everyone.choose(
    [1, 1],
    config.num_clients,
    seed,
    who="writers",
    without="train or test examples",
  )
  num_classes = 10 if config.only_digits else 62
  train, test = chosen.halves(
    functools.partial(_to_arrays, num_classes=num_classes), keeps_latest=True
  )
  data = "synthetic test images" if config.synthetic else "EMNIST"
  return task.Task(
    name="emnist_character",
    description=(
      f"{data}, {num_classes} classes: {writers}, "
      f"{task.count_examples(train, test)}"
    ),
    client_names=tuple(chosen.names),
    train=train,
    test=test,
    element_spec=task.element_spec(_IMAGE_SHAPE),
    num_classes=num_classes,
    keras_model_fn=models.image_classifier(
      config.model, _IMAGE_SHAPE, num_classes, model_seed
    ),
    objective=models.class_objective(),
  )


def _to_arrays(
  examples: native_clients.Examples, *, num_classes: int
) -> task.Arrays:
  pixels = examples["pixels"]
  example_checks.check_pixels(pixels)
  labels = example_checks.class_labels(examples["label"], num_classes)
  return pixels[..., np.newaxis], labels
