"""Builds models by name, and checks that they fit a task's shapes.

A name means the same model in every task; `tasks.models.names.ALL` lists the
names.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from tasks.models import convolutional, dense
from tasks.models.names import HIDDEN_UNITS, InitialWeights
from tasks.task import ElementSpec
from tff_fair.declared import FieldError


class Shapes(NamedTuple):
  """The shapes of one example's input and outputs that a task requires."""

  # The shape of the input; None for a size that differs between batches.
  x: tuple[int | None, ...]
  x_dtype: tf.DType  # Type of the input.
  outputs: tuple[int | None, ...]  # The shape of the outputs.
  are_classes: bool = False  # Whether labels are class numbers.

  @property
  def are_two_classes(self) -> bool:
    """Whether there are two classes, for which one output suffices."""
    return self.are_classes and self.outputs == (2,)

  def __str__(self) -> str:
    """Returns the shapes and types in words."""
    return (
      f"x {as_text(self.x, self.x_dtype)} and outputs "
      f"{as_text(self.outputs, tf.float32)}"
    )


def required_shapes(
  element_spec: ElementSpec, num_classes: int | None
) -> Shapes:
  """Returns the shapes that the model of a task must have."""
  x, y = element_spec
  outputs: tuple[int | None, ...] = (num_classes or 1,)
  are_classes = num_classes is not None and y.dtype.is_integer
  if num_classes is None:
    outputs = tuple(y.shape[1:]) or outputs
  elif are_classes:
    outputs = (*y.shape[1:], num_classes)
  return Shapes(tuple(x.shape[1:]), x.dtype, outputs, are_classes)


def as_text(shape: Sequence[int | None], dtype: tf.DType) -> str:
  """Describes a batch of values, such as "float32[n, 64]"."""
  sizes = ["n", *("?" if size is None else str(size) for size in shape)]
  return f"{tf.as_dtype(dtype).name}[{', '.join(sizes)}]"


def image_classifier(
  name: str,
  input_shape: tuple[int, ...],
  num_classes: int,
  seed: int,
  initial_weights: InitialWeights = "glorot",
) -> Callable[[], tf.keras.Model]:
  """Returns a function that builds the image classifier `name`."""
  if name in HIDDEN_UNITS:
    return dense.dense_classifier(
      name, input_shape, num_classes, seed, initial_weights
    )
  if initial_weights != "glorot":
    raise FieldError(
      "initial_weights",
      f"expected glorot for model={name}: only networks of dense layers have "
      "other initial weights.",
      value=initial_weights,
    )
  if takes := _takes(name, input_shape):
    shape = as_text(input_shape, tf.float32)
    raise FieldError(
      "model", f"takes {takes}; the task has {shape}.", value=name
    )
  match name:
    case "cnn_dropout":
      return functools.partial(convolutional.dropout_cnn, num_classes, seed)
    case "resnet18" | "vgg11":
      build = getattr(convolutional, name)
      return functools.partial(build, input_shape, num_classes, seed)
  return functools.partial(
    convolutional.fedavg_cnn,
    num_classes,
    seed,
    input_shape=input_shape,
    dense_units=2048 if name == "cnn_leaf" else 512,
  )


_MNIST = (28, 28, 1)


def build_fn(
  name: str, wanted: Shapes, seed: int
) -> Callable[[], tf.keras.Model]:
  """Returns a function that builds the model `name` for the shapes `wanted`."""
  if name.endswith("_double_softmax") and not wanted.are_classes:
    raise ValueError("the model gives probabilities; the labels are numbers.")
  number, *others = wanted.outputs
  sides = [size for size in wanted.x if size is not None]
  takes = _takes(name, sides)
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
  return image_classifier(name, tuple(sides), number, seed)


def _takes(name: str, sides: Sequence[int]) -> str:
  """Returns the input that a model takes, or "" if the shape `sides` fits."""
  if name in HIDDEN_UNITS:
    return ""
  if name == "cnn_dropout":
    return "" if tuple(sides) == _MNIST else "float32[n, 28, 28, 1]"
  images = "float32[n, height, width, channels]"
  if len(sides) != len(_MNIST):
    return images
  # Five poolings reduce 32 pixels to one.
  if name == "vgg11" and min(sides[:2]) < 32:
    return f"{images} with 32 x 32 pixels or more"
  return ""
