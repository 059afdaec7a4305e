"""The steps of `features` and `labels` as Keras' own layers.

So a saved model does not need this project's code. Inner layers have a dot in
their names, unlike inputs, because all names in a model must differ.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf

from tasks.tabular.features import Feature, NumberFeature, TextFeature
from tasks.tabular.labels import Labels

PROBABILITIES = "probabilities"
NUMBER = "number"
_DTYPES = {"number": "float32", "text": "string"}


def inputs(
  columns: Mapping[str, str], taken: Iterable[str] = ()
) -> dict[str, tf.Tensor]:
  """Returns a Keras input of shape [n] for each column, by column name."""
  named_inputs: dict[str, tf.Tensor] = {}
  used = {*taken, PROBABILITIES, NUMBER}
  for name, kind in columns.items():
    # Names of inputs consist of letters, digits and _, and must differ.
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    if not word[:1].isalpha():
      word = f"column_{word}"
    candidates = (word, *(f"{word}_{k}" for k in range(2, len(used) + 3)))
    layer_name = next(c for c in candidates if c not in used)
    used.add(layer_name)
    named_inputs[name] = tf.keras.Input(
      [], name=layer_name, dtype=_DTYPES[kind]
    )
  return named_inputs


def encode(
  inputs: Mapping[str, tf.Tensor], features: Sequence[Feature]
) -> tf.Tensor:
  """Returns x, float32[n, width], from raw values."""
  numbers = [f for f in features if isinstance(f, NumberFeature)]
  texts = [f for f in features if isinstance(f, TextFeature)]
  parts = _numbers(inputs, numbers) if numbers else []
  parts += [_one_hot(inputs[feature.name], feature) for feature in texts]
  return _joined(parts, "x.features")


def _joined(parts: Sequence[tf.Tensor], name: str) -> tf.Tensor:
  # Keras can save a Concatenate of one part, but not load it.
  if len(parts) == 1:
    return parts[0]
  return tf.keras.layers.Concatenate(name=name)(parts)


def in_label_units(outputs: tf.Tensor, labels: Labels) -> tf.Tensor:
  """Converts outputs to class probabilities, or to numbers in label units."""
  if labels.class_names is not None:
    return tf.keras.layers.Softmax(name=PROBABILITIES)(outputs)
  scaled = tf.keras.layers.Rescaling(
    labels.scale, labels.mean, name="y.own_units"
  )(outputs)
  return tf.keras.layers.Reshape([], name=NUMBER)(scaled)


def model(
  inputs: Mapping[str, tf.Tensor], outputs: tf.Tensor
) -> tf.keras.Model:
  """Returns a model that maps a dictionary of columns to outputs."""
  return tf.keras.Model(dict(inputs), outputs)


def _numbers(
  inputs: Mapping[str, tf.Tensor], features: Sequence[NumberFeature]
) -> list[tf.Tensor]:
  as_column = tf.keras.layers.Reshape([1], name="x.column")
  raw = _joined(
    [as_column(inputs[feature.name]) for feature in features], "x.numbers"
  )
  shifted = tf.keras.layers.Rescaling(
    1.0, [-feature.shift for feature in features], name="x.shifted"
  )(raw)
  standardized = tf.keras.layers.Rescaling(
    [feature.scale for feature in features],
    [feature.offset for feature in features],
    name="x.standardized",
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
  one_hot = tf.keras.layers.StringLookup(
    vocabulary=list(feature.values),
    mask_token=None,
    oov_token=unseen,
    output_mode="one_hot",
    name=f"{column.name}.values",
  )(column)
  # The first position is for unseen texts, which have no effect.
  is_known = [0.0, *[1.0] * len(feature.values)]
  return tf.keras.layers.Rescaling(is_known, name=f"{column.name}.known")(
    one_hot
  )
