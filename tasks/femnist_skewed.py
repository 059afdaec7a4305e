"""Handwritten letters a ... j, split among 100 clients with five letters each.

This is AdaFed's FEMNIST-skewed, after the FEMNIST of Li et al., "Federated
Optimization in Heterogeneous Networks" (MLSys 2020). The letters come from
TFF's Federated EMNIST or from EMNIST "byclass" (Cohen et al., 2017), with all
writers pooled. As in TFF, the background of images is 1; TFF's pixels are
rounded to multiples of 1/255.
"""

import dataclasses
import pathlib

import numpy as np

from tasks import central, task
from tasks.formats import example_checks, mnist
from tasks.formats.images import LabeledImages
from tasks.tff_native import native_clients

_PREFIXES = ("emnist-byclass-train", "emnist-byclass-test")
_LETTERS = tuple("abcdefghij")
# The class number of the letter a, after 10 digits and 26 upper-case letters.
_FIRST = 10 + 26


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(central.ImageOptions):
  """Options of the task `femnist_skewed`: those of all image tasks."""

  partition: central.Partition = "few_labels"


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, 28, 28, 1], y is int32[n].

  y is 0 for the letter a, 1 for b, and so on. `data_dir` has EMNIST's four idx
  files `emnist-byclass-*`, or TFF's `emnist_all.sqlite`, which is downloaded if
  neither exists. None means TFF's own cache, ~/.tff.
  """
  users: np.ndarray | None = None
  if data_dir is not None and mnist.has_half(data_dir, _PREFIXES[0]):
    train, test = mnist.read_halves(
      data_dir, train=_PREFIXES[0], test=_PREFIXES[1], what="EMNIST byclass"
    )
    halves = _letters(train), _letters(test)
  else:
    clients = native_clients.find(
      "emnist",
      data_dir,
      ["all_train", "all_test"],
      {"pixels": ([28, 28], "float32"), "label": ([], "int64")},
      advice="The task needs the letters, too.",
    )
    halves, users = native_clients.read_images(clients, _to_arrays)
  data = central.images_in_memory(
    "EMNIST a ... j", halves, _LETTERS, pixels=config.pixels, users=users
  )
  return central.build_image_task(
    "femnist_skewed", config, data, seed=seed, model_seed=model_seed
  )


def _letters(half: LabeledImages) -> LabeledImages:
  wanted = _is_wanted(half.labels)
  # EMNIST stores images column by column, with a background of 0.
  return LabeledImages(
    images=255 - half.images[wanted].transpose(0, 2, 1, 3),
    labels=half.labels[wanted] - _FIRST,
    source=half.source,
  )


def _to_arrays(examples: native_clients.Examples) -> task.Arrays:
  pixels, labels = examples["pixels"], examples["label"]
  example_checks.check_pixels(pixels)
  wanted = _is_wanted(labels)
  images = np.rint(255 * pixels[wanted, ..., np.newaxis]).astype(np.uint8)
  return images, labels[wanted] - _FIRST


def _is_wanted(labels: np.ndarray) -> np.ndarray:
  return (labels >= _FIRST) & (labels < _FIRST + len(_LETTERS))
