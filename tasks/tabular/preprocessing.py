"""What a table's training rows have taught, as Keras layers around a model."""

import typing
from collections.abc import Mapping, Sequence
from typing import Literal

from tasks.tabular.features import Feature, NumberFeature
from tasks.tabular.labels import Labels

if typing.TYPE_CHECKING:
  import tensorflow as tf


class TablePreprocessing:
  """A `tasks.task.Preprocessing` of a table's features and labels.

  Attributes:
    columns: The kind of each column of raw values, by name.
    typical: The mean of each column of numbers, in three digits; of texts, the
      first that is not missing.
    features: How the columns enter x.
    labels: What y means.
  """

  columns: Mapping[str, Literal["number", "text"]]
  typical: Mapping[str, float | str]

  def __init__(self, features: Sequence[Feature], labels: Labels) -> None:
    """Takes what a table's training rows have taught."""
    self.features = features
    self.labels = labels
    self.columns = {
      feature.name: "number" if isinstance(feature, NumberFeature) else "text"
      for feature in features
    }
    self.typical = {feature.name: _typical(feature) for feature in features}

  def around(self, model: "tf.keras.Model") -> "tf.keras.Model":
    """Returns a model that takes raw values.

    Args:
      model: A model of the task, from x, float32[n, width], to logits,
        float32[n, classes], or to standardized numbers, float32[n, 1].

    Returns:
      A model of plain Keras layers, from a dictionary of columns to class
      probabilities, float32[n, classes], or to numbers in the label's own
      units, float32[n]. A column of numbers is float32[n] with NaN for a
      missing one, one of texts string[n] with "" for a missing one.
    """
    from tasks.tabular import layers  # noqa: PLC0415

    inputs = layers.inputs(self.columns, taken=[model.name])
    outputs = model(layers.encode(inputs, self.features))
    return layers.model(inputs, layers.in_own_units(outputs, self.labels))

  def encoder(self) -> "tf.keras.Model":
    """Returns the part before the model: from raw values to x."""
    from tasks.tabular import layers  # noqa: PLC0415

    inputs = layers.inputs(self.columns)
    return layers.model(inputs, layers.encode(inputs, self.features))


def _typical(feature: Feature) -> float | str:
  if isinstance(feature, NumberFeature):
    return float(f"{feature.shift:.3g}")
  return next((value for value in feature.values if value), "")
