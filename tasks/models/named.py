"""Models by name, for any task whose shapes they fit.

A name means the same in every task; `tasks.models.names.ALL` has them.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from tasks.models import convolutional, dense, residual, shapes, vgg
from tasks.models.image_classifiers import LEAST_VGG_SIZE
from tasks.models.names import ALL, HIDDEN_UNITS

_MNIST = (28, 28, 1)


def build_fn(
  name: str, wanted: shapes.Shapes, seed: int
) -> Callable[[], tf.keras.Model]:
  """Returns a function that builds a new model by its name.

  Args:
    name: One of `tasks.models.names.ALL`.
    wanted: The shapes of the task.
    seed: Seed of the initial weights.

  Raises:
    ValueError: If there is no such model, or the task has other shapes.
  """
  if name not in ALL:
    raise ValueError(f"unknown model; valid models: {', '.join(ALL)}.")
  number, *others = wanted.outputs
  sides = [size for size in wanted.x if size is not None]
  takes = _takes(name, sides)
  is_dense = name in HIDDEN_UNITS
  if (
    takes
    or others
    or number is None
    or len(sides) < len(wanted.x)
    or not wanted.x_dtype.is_floating
  ):
    raise ValueError(
      f"the task has {wanted}; the model takes x "
      f"{takes or 'float32 of fixed sizes'} and gives float32[n, numbers]."
    )
  if is_dense:
    return dense.dense_classifier(name, tuple(sides), number, seed)
  height, width, channels = sides
  shape = (height, width, channels)
  match name:
    case "cnn" | "cnn_leaf":
      return functools.partial(
        convolutional.fedavg_cnn,
        number,
        seed,
        input_shape=shape,
        dense_units=2048 if name == "cnn_leaf" else 512,
      )
    case "cnn_dropout":
      return functools.partial(convolutional.dropout_cnn, number, seed)
    case "vgg11":
      return functools.partial(vgg.vgg11, shape, number, seed)
  return functools.partial(residual.resnet18, shape, number, seed)


def _takes(name: str, sides: list[int]) -> str:
  """Returns what a model takes, in words, where the task has something else."""
  if name in HIDDEN_UNITS:
    return ""
  if name == "cnn_dropout":
    return "" if tuple(sides) == _MNIST else "float32[n, 28, 28, 1]"
  images = "float32[n, height, width, channels]"
  if len(sides) != len(_MNIST):
    return images
  if name == "vgg11" and min(sides[:2]) < LEAST_VGG_SIZE:
    return f"{images} with {LEAST_VGG_SIZE} x {LEAST_VGG_SIZE} pixels or more"
  return ""
