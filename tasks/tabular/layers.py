"""The steps of `features` and `labels` as layers that Keras itself has.

A saved model needs none of this project's code.
"""

import re
from collections.abc import Mapping, Sequence

import tensorflow as tf

from tasks.tabular.features import Feature, NumberFeature, TextFeature
from tasks.tabular.labels import Labels

_DTYPES = {"number": "float32", "text": "string"}


def inputs(columns: Mapping[str, str]) -> dict[str, tf.Tensor]:
  """Returns Keras inputs of shape [n] by the names of columns.

  Args:
    columns: "number" or "text", by name.
  """
  made: dict[str, tf.Tensor] = {}
  used: set[str] = set()
  for name, kind in columns.items():
    # TensorFlow's names have no spaces, and must differ.
    plain = re.sub(r"\W", "_", name, flags=re.ASCII).lstrip("_") or "column"
    layer_name, number = plain, 1
    while layer_name in used:
      number += 1
      layer_name = f"{plain}_{number}"
    used.add(layer_name)
    made[name] = tf.keras.Input([], name=layer_name, dtype=_DTYPES[kind])
  return made


def encode(
  inputs: Mapping[str, tf.Tensor], features: Sequence[Feature]
) -> tf.Tensor:
  """Returns x, float32[n, width], of raw values.

  Args:
    inputs: Columns by name, as `inputs` makes them.
    features: How the columns enter x.
  """
  numbers = [f for f in features if isinstance(f, NumberFeature)]
  texts = [f for f in features if isinstance(f, TextFeature)]
  parts = _numbers(inputs, numbers) if numbers else []
  parts += [_one_hot(inputs[feature.name], feature) for feature in texts]
  return tf.keras.layers.Concatenate(name="features")(parts)


def in_own_units(outputs: tf.Tensor, labels: Labels) -> tf.Tensor:
  """Returns class probabilities of logits, or numbers in the label's units."""
  if labels.class_names is not None:
    return tf.keras.layers.Softmax(name="probabilities")(outputs)
  scaled = tf.keras.layers.Rescaling(labels.scale, labels.mean)(outputs)
  return tf.keras.layers.Reshape([], name="number")(scaled)


def model(
  inputs: Mapping[str, tf.Tensor], outputs: tf.Tensor
) -> tf.keras.Model:
  """Returns a model from columns by name to an output."""
  return tf.keras.Model(dict(inputs), outputs)


def _numbers(
  inputs: Mapping[str, tf.Tensor], features: Sequence[NumberFeature]
) -> list[tf.Tensor]:
  as_column = tf.keras.layers.Reshape([1])
  raw = tf.keras.layers.Concatenate(name="numbers")(
    [as_column(inputs[feature.name]) for feature in features]
  )
  shifted = tf.keras.layers.Rescaling(
    1.0, [-feature.shift for feature in features], name="shifted"
  )(raw)
  standardized = tf.keras.layers.Rescaling(
    [feature.scale for feature in features],
    [feature.offset for feature in features],
    name="standardized",
  )(shifted)
  is_missing = tf.math.is_nan(raw)
  parts = [tf.where(is_missing, tf.zeros_like(standardized), standardized)]
  flagged = [k for k, feature in enumerate(features) if feature.is_flagged]
  if flagged:
    parts.append(tf.gather(tf.cast(is_missing, tf.float32), flagged, axis=1))
  return parts


def _one_hot(column: tf.Tensor, feature: TextFeature) -> tf.Tensor:
  unseen = "[UNK]"
  while unseen in feature.values:
    unseen += "_"
  return tf.keras.layers.StringLookup(
    vocabulary=list(feature.values),
    mask_token=None,
    oov_token=unseen,
    output_mode="one_hot",
  )(column)
