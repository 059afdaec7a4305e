"""Any data set of vectors or images in LEAF's JSON format.

Caldas et al., "LEAF: A Benchmark for Federated Settings" (2018). The task reads
the output of the tools of LEAF, FedProx and q-FedAvg: a folder of JSON files,
or a folder that has the folders `train` and `test`.
"""

import dataclasses
import math
import pathlib
from typing import Literal

import numpy as np

from tasks import models, options, task
from tasks.data_error import DataError
from tasks.formats import example_checks, leaf_json
from tff_fair import declared
from tff_fair.declared import FieldError

_IMAGE_SHAPE = (28, 28, 1)  # The input of the network of McMahan et al.


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(options.LocalTestOptions):
  """Options of the task `leaf`."""

  files: str = declared.value(
    "*.json",
    "A pattern of the files to read, in the folder or in its folders `train` "
    "and `test`.",
    expects="a pattern such as *.json",
    is_valid=bool,
  )
  num_classes: int | None = declared.value(
    None, "Number of classes; none means the largest label plus one.", minimum=2
  )
  image_shape: str | None = declared.value(
    None,
    'Shape of the images that flat vectors hold, such as "28x28"; none keeps '
    "the shape that inputs have in the files.",
    expects="such as 28x28 or 32x32x3, or none",
    is_valid=options.shape_of,
  )
  model: Literal["logistic_regression", "mlp_128", "cnn"] = declared.value(
    "logistic_regression",
    'The classifier: "logistic_regression", "mlp_128" with one hidden layer '
    'of 128 units, or "cnn", the network of McMahan et al. for images of '
    "28x28.",
  )


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, *shape], y is int32[n]."""
  everyone = leaf_json.load_users(
    data_dir,
    _ToArrays(config),
    pattern=config.files,
    test_fraction=config.test_fraction,
    min_examples=config.min_examples,
    seed=seed,
  )
  users = everyone.sample(config.num_clients, seed)
  x, _ = users.train.load(0)
  shape = x.shape[1:]
  num_classes = config.num_classes or 1 + max(
    int(half.load(client_id)[1].max())
    for half in (everyone.train, everyone.test)
    for client_id in range(len(everyone.names))
  )
  if num_classes < 2:
    raise DataError(
      data_dir,
      "all labels are 0; give the number of classes (num_classes) if there are "
      "more.",
    )
  if config.model == "cnn" and shape != _IMAGE_SHAPE:
    raise FieldError(
      "model",
      f"takes images of 28x28x1, found x of shape {shape}; image_shape=28x28 "
      "turns vectors into images.",
      value=config.model,
    )
  return task.Task(
    name="leaf",
    description=(
      f"{config.files} of {data_dir}: {users.describe()}, "
      f"x {'x'.join(map(str, shape)) or 'a number'}, {num_classes} classes"
    ),
    client_names=users.names,
    train=users.train,
    test=users.test,
    element_spec=task.element_spec(shape),
    num_classes=num_classes,
    keras_model_fn=models.image_classifier(
      config.model, shape, num_classes, model_seed
    ),
    objective=models.class_objective(),
  )


class _ToArrays:
  """Converts users' examples, which must all have the same shape, to arrays."""

  def __init__(self, config: Options) -> None:
    self._num_classes = config.num_classes
    self._image_shape = options.shape_of(config.image_shape or "")
    self._shape: tuple[int, ...] | None = None

  def __call__(
    self, x: list[object], y: list[int | float | str]
  ) -> task.Arrays:
    labels = example_checks.class_labels(y, self._num_classes)
    if not x:
      return np.zeros([0, *(self._shape or ())], np.float32), labels
    try:
      values = np.array(x, np.float32)
    except (TypeError, ValueError, OverflowError) as error:
      raise ValueError(
        "x must be numbers, of the same shape in each example"
      ) from error
    if not np.isfinite(values).all():
      raise ValueError("x has values that are not finite")
    if self._image_shape:
      values = _as_images(values, self._image_shape)
    if self._shape is None:
      self._shape = values.shape[1:]
    if values.shape[1:] != self._shape:
      raise ValueError(
        f"x has shape {values.shape[1:]}, expected {self._shape} as before"
      )
    return values, labels


def _as_images(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
  if values[0].size != math.prod(shape):
    raise ValueError(
      f"x has {values[0].size} numbers, an image_shape of "
      f"{'x'.join(map(str, shape))} has {math.prod(shape)}"
    )
  return values.reshape(len(values), *shape)
