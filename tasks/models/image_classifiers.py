"""Image classifiers by name."""

import functools
from collections.abc import Callable, Mapping

import tensorflow as tf

from tasks.models import convolutional, dense, residual, vgg
from tasks.models.names import (
  HIDDEN_UNITS,
  ImageModelName,
  InitialWeights,
)
from tff_fair.declared import FieldError

_CONVOLUTIONAL: Mapping[str, Callable[..., tf.keras.Model]] = {
  "resnet18": residual.resnet18,
  "vgg11": vgg.vgg11,
}
# Five poolings leave one pixel of 32.
LEAST_VGG_SIZE = 32


def image_classifier(
  name: ImageModelName,
  input_shape: tuple[int, int, int],
  num_classes: int,
  seed: int,
  initial_weights: InitialWeights = "glorot",
) -> Callable[[], tf.keras.Model]:
  """Returns a function that builds a new classifier.

  Args:
    name: "linear"; "mlp" with two hidden layers of 200 units; "mlp_128" with
      one of 128; "linear_double_softmax" and "mlp_double_softmax", see
      `tasks.models.mlp_double_softmax`; "cnn" of McMahan et al.; "resnet18"
      with group normalization; "vgg11".
    input_shape: Height, width and channels of an image.
    num_classes: Number of logits.
    seed: Seed of the initial weights.
    initial_weights: As for `tasks.models.mlp`; other models have one kind.

  Raises:
    ValueError: If the images are too small for the model, or it has no such
      initial weights.
  """
  if name in HIDDEN_UNITS:
    return dense.dense_classifier(
      name, input_shape, num_classes, seed, initial_weights
    )
  if initial_weights != "glorot":
    raise FieldError(
      "initial_weights",
      f"expected glorot for model={name}: only networks of dense layers have "
      "others.",
      value=initial_weights,
    )
  if name == "cnn":
    return functools.partial(
      convolutional.fedavg_cnn, num_classes, seed, input_shape=input_shape
    )
  if name == "vgg11" and min(input_shape[:2]) < LEAST_VGG_SIZE:
    raise FieldError(
      "model",
      f"expected another one for images of {input_shape[0]} x {input_shape[1]} "
      "pixels: it pools five times.",
      value=name,
    )
  return functools.partial(_CONVOLUTIONAL[name], input_shape, num_classes, seed)
