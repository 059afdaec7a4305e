"""The model that an export writes: it returns predictions, not logits.

Where the task has a preprocessing, raw columns go in; else x of the task. Where
labels are classes, probabilities come out: the loss of a run is the negative
logarithm of the one of the right class. A number comes out as the model has it.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from tff_fair.experiments.runs import architecture, trained_model

X, PROBABILITIES, NUMBER = "x", "probabilities", "number"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Predictor:
  """A Keras model that is to be written, and what it takes and returns.

  Attributes:
    model: From x, or a dictionary of columns, to one output called `output`.
    trained: The layer of it with the trained weights, from x to the outputs
      that training knows.
    arguments: What programs other than Keras call each input, by its name.
    x_shape: Shape of one x; None is any size. Of a model that takes x.
    x_dtype: Type of x.
    batch_size: Number of examples that it takes; None is any.
    takes_columns: Whether inputs are raw columns, and not x.
    output: Name of the output.
  """

  model: tf.keras.Model
  trained: tf.keras.Model
  arguments: Mapping[str, str]
  x_shape: Sequence[int | None]
  x_dtype: str
  batch_size: int | None
  takes_columns: bool
  output: str

  def assign(self, weights: Sequence[np.ndarray]) -> None:
    """Gives the model its weights, as `trained_model.assign` takes them."""
    trained_model.assign(self.trained, weights)


def build(found: architecture.Found) -> Predictor:
  """Builds the model of a run, with initial weights.

  Args:
    found: The architecture of the run.
  """
  if found.build_with_preprocessing is None:
    return build_of_x(found)
  model, trained = found.build_with_preprocessing()
  return _predictor(found, model, trained, takes_columns=True)


def build_of_x(
  found: architecture.Found,
  *,
  fixed_shape: bool = False,
  batch_size: int | None = None,
) -> Predictor:
  """Builds the model of a run that takes x, with initial weights.

  Args:
    found: The architecture of the run.
    fixed_shape: Whether x has the shape of the task's, even where the model
      takes others: a sequence of any length, say.
    batch_size: Number of examples that the model takes; None is any.
  """
  described = found.architecture
  trained = found.build()
  shape = described.x_shape if fixed_shape else trained.input_shape[1:]
  x = tf.keras.Input(shape, batch_size, dtype=described.x_dtype, name=X)
  last = tf.keras.layers.Activation(described.activation, name=_output(found))
  model = tf.keras.Model(x, last(trained(x)))
  return _predictor(found, model, trained, takes_columns=False)


def _output(found: architecture.Found) -> str:
  is_number = found.architecture.num_classes is None
  return NUMBER if is_number else PROBABILITIES


def _predictor(
  found: architecture.Found,
  model: tf.keras.Model,
  trained: tf.keras.Model,
  *,
  takes_columns: bool,
) -> Predictor:
  return Predictor(
    model=model,
    trained=trained,
    arguments={column: tensor.name for column, tensor in model.input.items()}
    if takes_columns
    else {X: X},
    x_shape=model.inputs[0].shape[1:].as_list(),
    x_dtype=model.inputs[0].dtype.name,
    batch_size=model.inputs[0].shape[0],
    takes_columns=takes_columns,
    output=_output(found),
  )
