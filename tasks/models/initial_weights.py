"""Rebuilds a user's Keras model with the same initial weights each time.

A seed determines these weights. Weights without an initializer, such as trained
weights, are copied from one model, built outside of graphs, to all other
models.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import inspect
import pathlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import tensorflow as tf

from tasks import task
from tasks.models import catalog, layers
from tasks.task import Task
from tff_fair import keras_state, user_functions
from tff_fair.declared import FieldError


class SeededModelBuilder:
  """Builds a user's model, with weights that a seed determines.

  It is not a dataclass, so two builders are never equal and share no compiled
  programs: a user's function may depend on more than its arguments.
  """

  def __init__(
    self,
    name: str,
    function: Callable[..., Any],
    arguments: Mapping[str, object],
    wanted: catalog.Shapes,
    seed: int,
  ) -> None:
    self.name = name
    self.wanted = wanted
    self._function = function
    self._arguments = arguments
    self._seed = seed
    self._starting: FixedWeightsBuilder | None = None

  def error(self, problem: str) -> FieldError:
    """Returns the error for a problem with the user's function."""
    return FieldError(self.name, problem)

  def with_seed(self, seed: int) -> SeededModelBuilder:
    """Returns a builder of the same model with another seed."""
    arguments = dict(self._arguments)
    if "seed" in arguments:
      arguments["seed"] = seed
    builder = SeededModelBuilder(
      self.name, self._function, arguments, self.wanted, seed
    )
    if self._starting is not None:
      builder.fix_weights(builder.new_model())
    return builder

  def __call__(self) -> tf.keras.Model:
    """Returns a new model with its initial weights."""
    return self.new_model() if self._starting is None else self._starting()

  @property
  def digest(self) -> str | None:
    """The digest of copied weights; None if initializers create all weights."""
    return None if self._starting is None else self._starting.digest

  @keras_state.preserve()
  def fix_weights(self, model: tf.keras.Model) -> None:
    """Gives all later models the current weights of `model`."""
    build: task.KerasModelFn = functools.partial(clone, model)
    try:
      with tf.Graph().as_default():
        build()
    # A user's layer may have a wrong config, so that it cannot be cloned.
    except Exception:
      build = self.new_model
    self._starting = FixedWeightsBuilder.from_weights(
      build, [weight.numpy() for weight in model.weights]
    )

  def new_model(self, *, other_draws: bool = False) -> tf.keras.Model:
    """Returns a new model from the function; `other_draws` changes the seed."""
    seed = self._seed + other_draws
    model = self.adapted_model(seed)
    if not model.built:
      with layers.seeded(seed):
        model(tf.keras.Input(self.wanted.x, dtype=self.wanted.x_dtype))
    return model

  def adapted_model(self, seed: int | None = None) -> Any:
    """Returns the user's model with one output tensor.

    For two classes, a single output becomes two logits.
    """
    seed = self._seed if seed is None else seed
    model = self.raw_model(seed)
    if not isinstance(model, tf.keras.Model):
      return model
    model = with_one_tensor(model, self.wanted, seed)
    if self.wanted.are_two_classes:
      return with_two_logits(model, self.wanted, seed)
    return model

  def raw_model(self, seed: int | None = None) -> Any:
    """Returns the result of the user's function."""
    seed = self._seed if seed is None else seed
    with layers.seeded(seed):
      try:
        return self._function(**self._arguments)
      except Exception as error:
        if "is in an invalid state" in str(error):  # Keras' message.
          raise self.error(
            "calls a model or a layer from outside the function, which Keras "
            "cannot call in a graph; build or load the whole model within the "
            "function.",
          ) from error
        file = None
        with contextlib.suppress(TypeError):
          file = inspect.getsourcefile(inspect.unwrap(self._function))
        path = None if file is None else pathlib.Path(file)
        raise user_functions.user_code_error(self.name, path, error) from error


_Creator = Callable[..., tf.Variable]


@dataclasses.dataclass(frozen=True)
class FixedWeightsBuilder:
  """Builds models that all start with the weights `weights`."""

  build: task.KerasModelFn  # Returns a new model with other weights.
  # The weights, in the order of `tf.keras.Model.weights`.
  weights: tuple[np.ndarray, ...]
  # For each variable, in the order of creation in a graph, its index in
  # `weights`; None if the variable is not a weight.
  weight_indices: tuple[int | None, ...]

  @classmethod
  @keras_state.preserve()
  def from_weights(
    cls, build: task.KerasModelFn, weights: Sequence[np.ndarray]
  ) -> Self:
    """Returns a builder of models with `weights`.

    It builds one model in a graph, to see in which order variables are created.
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
      tuple(_cast_weights(variables, weights)),
      tuple(place_of.get(id(variable)) for variable in created),
    )

  def __call__(self) -> tf.keras.Model:
    """Returns a new model with `weights`."""
    if tf.executing_eagerly():
      model = self.build()
      for variable, value in zip(model.weights, self.weights, strict=True):
        variable.assign(value)
      return model
    places = iter(self.weight_indices)

    def begin(create: _Creator, **arguments: Any) -> tf.Variable:
      place = next(places)
      if place is not None:
        value = self.weights[place]
        arguments["initial_value"] = lambda: tf.constant(value)
      return create(**arguments)

    with tf.variable_creator_scope(begin):
      return self.build()

  @property
  def digest(self) -> str:
    """The SHA-256 of the weights' shapes, types and values."""
    found = hashlib.sha256()
    for value in self.weights:
      found.update(f"{value.dtype.name}{list(value.shape)}\n".encode())
      found.update(np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


def _cast_weights(
  variables: Sequence[tf.Variable], weights: Sequence[np.ndarray]
) -> Iterator[np.ndarray]:
  """Yields the weights in the types of a model's variables."""
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
  """Returns the digest of the weights that a builder copies, or None."""
  found = getattr(build, "digest", None)
  return found if isinstance(found, str) else None


def clone(layer: tf.keras.layers.Layer) -> tf.keras.layers.Layer:
  """Returns a copy of a layer or model, with newly initialized weights."""
  if isinstance(layer, tf.keras.Model):
    return tf.keras.models.clone_model(layer, clone_function=clone)
  new = type(layer).from_config(layer.get_config())
  if isinstance(layer, tf.keras.layers.Lambda):
    # A config loses the names that the function of a `Lambda` refers to.
    new.function = layer.function
  return new


# The input z of a single sigmoid output is the logit of the second class. With
# logit 0 for the first class, softmax cross entropy is binary cross entropy:
# log(1 + exp(z)) - y z

# Sequential and functional models.
_GRAPHS = (tf.keras.Sequential, tf.keras.Sequential.__base__)
_LAST = (tf.keras.layers.Dense, tf.keras.layers.Activation)
_TWO_CLASSES = "two_classes"


def with_two_logits(
  model: tf.keras.Model, wanted: catalog.Shapes, seed: int
) -> tf.keras.Model:
  """Turns a model's single output, with or without sigmoid, into two logits."""
  last = last_layer(model)
  if type(last) not in _LAST or last.activation not in (
    tf.keras.activations.sigmoid,
    tf.keras.activations.linear,
  ):
    return model
  _, outputs = _call_symbolically(model, wanted, seed)
  if not tf.is_tensor(outputs) or outputs.shape.as_list() != [None, 1]:
    return model
  last.activation = tf.keras.activations.linear
  two_classes = tf.keras.layers.Dense(
    2,
    use_bias=False,
    trainable=False,
    kernel_initializer=tf.keras.initializers.Constant([[0.0, 1.0]]),
    name=_TWO_CLASSES,
  )
  return tf.keras.Sequential([model, two_classes])


_ONE_TENSOR = "one_tensor"


def with_one_tensor(
  model: tf.keras.Model, wanted: catalog.Shapes, seed: int
) -> tf.keras.Model:
  """Unwraps a model's output if it is a dict or list that holds one tensor."""
  if isinstance(model, _GRAPHS) and not isinstance(
    getattr(model, "output", None) if model.built else None,
    Mapping | list | tuple,
  ):
    return model
  x, outputs = _call_symbolically(model, wanted, seed)
  if not isinstance(outputs, Mapping | list | tuple) or len(outputs) != 1:
    return model
  (output,) = tf.nest.flatten(outputs)
  return tf.keras.Model(x, output, name=_ONE_TENSOR)


def _call_symbolically(
  model: tf.keras.Model, wanted: catalog.Shapes, seed: int
) -> tuple[tf.Tensor, Any]:
  """Calls a model on a Keras input; returns the input and the outputs.

  The outputs are None if the model refuses the input.
  """
  x = tf.keras.Input(wanted.x, dtype=wanted.x_dtype)
  with contextlib.suppress(Exception), layers.seeded(seed):
    return x, model(x)
  return x, None  # Later checks report the reason.


def last_layer(model: tf.keras.Model) -> tf.keras.layers.Layer:
  """Returns a model's last layer; for a subclassed model, the model itself."""
  last: tf.keras.layers.Layer = model
  while type(last) in _GRAPHS and last.layers:
    last = last.layers[-1]
  return last


def unwrap_user_model(model: tf.keras.Model) -> tf.keras.Model:
  """Returns the model of the user's function, without layers added to it."""
  parts = model.layers
  if parts and parts[-1].name == _TWO_CLASSES:
    return unwrap_user_model(parts[0])
  return parts[-1] if model.name == _ONE_TENSOR else model


_MODELS_PACKAGE = "tasks.models."
# Models whose seed affects more than their initial weights.
_RANDOM_MODELS = ("dropout_cnn",)


def with_seed_0(task: Task) -> Task:
  """Returns a task with model seed 0, so that all seeds share compiled models.

  Returns the task itself if its model is a user's, or random in training.
  """
  build = task.keras_model_fn
  if isinstance(build, FixedWeightsBuilder):
    build = build.build
  if not isinstance(build, functools.partial) or not _is_ours(build.func):
    return task
  bound = inspect.signature(build.func).bind_partial(
    *build.args, **build.keywords
  )
  if "seed" not in bound.arguments:
    return task
  bound.arguments["seed"] = 0
  build = functools.partial(build.func, *bound.args, **bound.kwargs)
  return dataclasses.replace(task, keras_model_fn=build)


def _is_ours(function: object) -> bool:
  """Returns whether a function is from `tasks.models`, except random models."""
  module, name = (
    getattr(function, attribute, "")
    for attribute in ("__module__", "__qualname__")
  )
  return (
    module.startswith(_MODELS_PACKAGE)
    and name not in _RANDOM_MODELS
    and getattr(sys.modules[module], name, None) is function
  )
