"""Describes models by Keras' own layers, so that any program can load them.

The method `exportable` of this project's layers returns a Keras layer or model
that does the same, with the same name, and with weights of the same shapes in
the same order. A model can replace a layer only in a sequential model.
"""

import contextlib
import copy
import json
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from tasks.models import keras_parts

# A model as Keras describes it in its files, ready for JSON.
Config = Mapping[str, Any]

_MOST_LETTERS = 100  # The most characters to show of a Keras error.
_ZEROS = {
  "module": "keras.initializers",
  "class_name": "Zeros",
  "config": {},
  "registered_name": None,
}


class NotExportableError(ValueError):
  """A model has parts that are not Keras' own: only its task can build it."""


def describe(model: tf.keras.Model, name: str) -> Config:
  """Returns the config of an equivalent model of Keras layers."""
  try:
    if any(map(_needs_replacement, _layers(model))):
      model = _replace_layers(model)
  except (NotImplementedError, TypeError, ValueError) as error:
    # The model is not a graph of layers, or a layer has no config.
    raise NotExportableError(f"{model.name}: {error}") from error
  config = config_of(model)
  config = {**config, "config": {**config["config"], "name": name}}
  shapes = [weight.shape for weight in model.weights]
  if [weight.shape for weight in build(config).weights] != shapes:
    raise NotExportableError("Keras builds it with other weights")
  return config


def config_of(model: tf.keras.Model) -> Config:
  """Returns the config of a model that has only Keras layers."""
  try:
    config = tf.keras.saving.serialize_keras_object(model)
    found: Config = json.loads(json.dumps(config))
  except (NotImplementedError, TypeError, ValueError) as error:
    raise NotExportableError(f"{model.name}: {error}") from error
  _check(found)
  return found


def build(config: Config) -> tf.keras.Model:
  """Builds a model from its config, with newly initialized weights."""
  _check(config)
  try:
    with without_custom_objects():
      # Copies the config, since some layers remove parts from it.
      model = tf.keras.saving.deserialize_keras_object(copy.deepcopy(config))
  except (LookupError, RecursionError, TypeError, ValueError) as error:
    raise NotExportableError(
      f"Keras cannot build it: {reason(error)}"
    ) from error
  if not isinstance(model, tf.keras.Model):
    raise NotExportableError("describes no model")
  return model


def reason(error: Exception) -> str:
  """Returns the message of a Keras error in one line."""
  # Before the reason, Keras shows the whole config of a layer.
  text = str(error).rpartition("Exception encountered: ")[2]
  return " ".join(text.split())[:_MOST_LETTERS] or type(error).__name__


def _layers(model: tf.keras.Model) -> Iterator[tf.keras.layers.Layer]:
  for layer in model.layers:
    if isinstance(layer, tf.keras.Model):
      yield from _layers(layer)
    else:
      yield layer


def _needs_replacement(layer: tf.keras.layers.Layer) -> bool:
  return hasattr(layer, "exportable") or any(
    map(_is_array, layer.get_config().values())
  )


def _replace_layers(layer: tf.keras.layers.Layer) -> tf.keras.layers.Layer:
  if isinstance(layer, tf.keras.Model):
    return tf.keras.models.clone_model(layer, clone_function=_replace_layers)
  if hasattr(layer, "exportable"):
    return layer.exportable()
  config = {
    name: _ZEROS if _is_array(value) else value
    for name, value in layer.get_config().items()
  }
  return type(layer).from_config(config)


def _is_array(initializer: object) -> bool:
  """Returns whether an initializer is a whole array, such as word vectors."""
  return (
    isinstance(initializer, Mapping)
    and initializer.get("class_name") == "Constant"
    and not isinstance(initializer["config"]["value"], int | float)
  )


def _check(config: Config) -> None:
  if foreign := sorted(set(keras_parts.find_foreign(config))):
    raise NotExportableError(f"{', '.join(foreign)}: not part of Keras")


@contextlib.contextmanager
def without_custom_objects() -> Iterator[None]:
  """Hides custom Keras objects that are registered only in this process."""
  registered = tf.keras.saving.get_custom_objects()
  hidden = dict(registered)
  registered.clear()
  try:
    yield
  finally:
    registered.update(hidden)
