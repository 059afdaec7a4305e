"""Keras models that begin with given weights, as those of a trained model.

TFF builds models in graphs that another process runs. A value that a program
assigns to a variable does not get there; an initial value does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from tasks import task

_Creator = Callable[..., tf.Variable]


@dataclasses.dataclass(frozen=True)
class Starting:
  """Returns a new model, each time with the same given weights.

  Attributes:
    build: Returns a new model, with other weights.
    weights: The weights, in the order of `tf.keras.Model.weights`.
    places: For each variable that building in a graph creates, in turn, its
      place among the weights; None if it is none of them.
  """

  build: task.KerasModelFn
  weights: tuple[np.ndarray, ...]
  places: tuple[int | None, ...]

  @classmethod
  def of(cls, build: task.KerasModelFn, weights: Sequence[np.ndarray]) -> Self:
    """Returns what builds a model with given weights; builds it once.

    Raises:
      ValueError: If the model has weights of other shapes.
    """
    created: list[tf.Variable] = []

    def record(create: _Creator, **arguments: Any) -> tf.Variable:
      created.append(create(**arguments))
      return created[-1]

    with tf.Graph().as_default(), tf.variable_creator_scope(record):
      variables = build().weights
    place_of = {id(variable): k for k, variable in enumerate(variables)}
    return cls(
      build,
      tuple(_fitting(variables, weights)),
      tuple(place_of.get(id(variable)) for variable in created),
    )

  def __call__(self) -> tf.keras.Model:
    """Returns a new model."""
    if tf.executing_eagerly():
      model = self.build()
      for variable, value in zip(model.weights, self.weights, strict=True):
        variable.assign(value)
      return model
    with self._initial_values():
      return self.build()

  @property
  def digest(self) -> str:
    """The SHA-256 of the weights: of their shapes, types and values."""
    found = hashlib.sha256()
    for value in self.weights:
      found.update(f"{value.dtype.name}{list(value.shape)}\n".encode())
      found.update(np.ascontiguousarray(value).tobytes())
    return found.hexdigest()

  @contextlib.contextmanager
  def _initial_values(self) -> Iterator[None]:
    """Gives each variable that is created in a graph its initial value."""
    places = iter(self.places)

    def begin(create: _Creator, **arguments: Any) -> tf.Variable:
      place = next(places)
      if place is not None:
        value = self.weights[place]
        arguments["initial_value"] = lambda: tf.constant(value)
      return create(**arguments)

    with tf.variable_creator_scope(begin):
      yield


def _fitting(
  variables: Sequence[tf.Variable], weights: Sequence[np.ndarray]
) -> Iterator[np.ndarray]:
  """Yields the weights in the types of a model's variables.

  Raises:
    ValueError: If they are of other shapes.
  """
  if len(variables) != len(weights):
    raise ValueError(
      f"has {len(weights)} arrays of weights, and the model to train has "
      f"{len(variables)}; expected the weights of the same layers."
    )
  for number, (variable, value) in enumerate(
    zip(variables, weights, strict=True), 1
  ):
    if variable.shape != value.shape:
      raise ValueError(
        f"array {number} of its weights has the shape {list(value.shape)}, and "
        f"{variable.name} of the model to train {variable.shape.as_list()}; "
        "expected the weights of the same layers."
      )
    yield value.astype(variable.dtype.as_numpy_dtype)


def digest(build: task.KerasModelFn) -> str | None:
  """Returns the digest of the weights that a model is given; None of others."""
  found = getattr(build, "digest", None)
  return found if isinstance(found, str) else None


def clone(layer: tf.keras.layers.Layer) -> tf.keras.layers.Layer:
  """Returns a new layer, or a new model, as another one, with other weights.

  Raises:
    ValueError, TypeError, NotImplementedError: If the layer, or one in it, does
      not tell its settings, or a model is no graph of layers.
  """
  if isinstance(layer, tf.keras.Model):
    return tf.keras.models.clone_model(layer, clone_function=clone)
  new = type(layer).from_config(layer.get_config())
  if isinstance(layer, tf.keras.layers.Lambda):
    new.function = layer.function  # A config loses what its names stand for.
  return new
