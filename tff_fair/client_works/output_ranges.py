"""Finds the ranges of a model's predictions for a client's examples.

Each prediction becomes a number. For a classifier, the number is the class with
the largest logit. For a model with several labels per example, each label has a
fixed random weight, and the number is the sum of the weights of the five labels
with the largest logits. For a regression, the number is the prediction itself,
or a weighted sum if the model predicts several values. Labels become numbers
likewise. The ranges reveal constant models: if a client's least and largest
numbers are equal, the model predicts the same for all of the client's examples.
"""

import collections
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from tff_fair.client_works import batches

Kind = Literal["class", "labels", "number"]
# `ENDS`, float64[4]: -min and max of the numbers that predictions become, then
# -min and max of those of labels. For regressions, there is also `LABEL_SUMS`,
# float64[2, width]: the sums of labels and of their squares.
Ranges: TypeAlias = collections.OrderedDict[str, tf.Tensor]
ENDS, LABEL_SUMS = "output_ends", "label_sums"

# This many labels count as predicted: those with the largest logits.
TOP = 5


class Outputs(NamedTuple):
  """The kind of a model's outputs and labels."""

  # What an example's labels are: for "class", one class, or one class at each
  # position; for "labels", a 0 or 1 for each label; for "number", one or more
  # numbers.
  kind: Kind
  width: int = 1  # Length of a row of labels or numbers.
  padding: int | None = None  # A label of this class marks a position to skip.


def start(outputs: Outputs) -> Ranges:
  """Returns the ranges before the first batch: empty, and all sums 0."""
  found = {ENDS: tf.fill([4], tf.constant(-np.inf, tf.float64))}
  if outputs.kind == "number":
    found[LABEL_SUMS] = tf.zeros([2, outputs.width], tf.float64)
  return collections.OrderedDict(found)


def add(
  ranges: Ranges, outputs: Outputs, batch: batches.Batch, predictions: Any
) -> Ranges:
  """Returns the ranges after one more batch.

  Predictions are logits, [n, ..., classes], or t numbers per example, [n, t].
  If their shape does not fit the labels, they count as ranging from minus
  infinity to infinity.
  """
  labels = batches.labels(batch)
  ends = [
    end
    for numbers in (
      _prediction_numbers(outputs, labels, predictions),
      _label_numbers(outputs, labels),
    )
    for end in (-tf.reduce_min(numbers), tf.reduce_max(numbers))
  ]
  found = {ENDS: tf.maximum(ranges[ENDS], tf.stack(ends))}
  if outputs.kind == "number":
    numbers = tf.reshape(tf.cast(labels, tf.float64), [-1, outputs.width])
    powers = tf.stack([numbers, tf.square(numbers)])
    found[LABEL_SUMS] = ranges[LABEL_SUMS] + tf.reduce_sum(powers, 1)
  return collections.OrderedDict(found)


def _prediction_numbers(
  outputs: Outputs, labels: tf.Tensor, predictions: Any
) -> tf.Tensor:
  """Returns one number for each prediction, as the module's docstring says.

  Returns the bounds -inf and inf if predictions do not fit the labels.
  """
  unknown = tf.constant([-np.inf, np.inf], tf.float64)
  if not tf.is_tensor(predictions) or not predictions.dtype.is_floating:
    return unknown
  if outputs.kind == "number":
    return _weighted_sums(outputs, predictions)
  rank, number = labels.shape.rank, predictions.shape[-1]
  if number in (None, 1) or (
    predictions.shape.rank != rank + (outputs.kind == "class")
  ):
    return unknown
  if outputs.kind == "class":
    classes = tf.cast(tf.argmax(predictions, -1), tf.float64)
    return _without_padding(outputs, labels, classes)
  _, largest = tf.math.top_k(predictions, min(TOP, number))
  return tf.reduce_sum(tf.gather(_weights(number), largest), -1)


def _label_numbers(outputs: Outputs, labels: tf.Tensor) -> tf.Tensor:
  if outputs.kind == "class":
    return _without_padding(outputs, labels, tf.cast(labels, tf.float64))
  return _weighted_sums(outputs, labels)


def _without_padding(
  outputs: Outputs, labels: tf.Tensor, values: tf.Tensor
) -> tf.Tensor:
  """Returns `values` as a vector, without values whose labels are padding."""
  flat = tf.reshape(values, [-1])
  if outputs.padding is None:
    return flat
  is_counted = tf.not_equal(tf.reshape(labels, [-1]), outputs.padding)
  return tf.boolean_mask(flat, is_counted)


def _weighted_sums(outputs: Outputs, values: tf.Tensor) -> tf.Tensor:
  numbers = tf.cast(values, tf.float64)
  if outputs.width == 1:
    return tf.reshape(numbers, [-1])
  rows = tf.reshape(numbers, [-1, outputs.width])
  return tf.reduce_sum(rows * _weights(outputs.width), -1)


def _weights(number: int) -> tf.Tensor:
  """Returns fixed random weights, float64[number]."""
  # The weights are whole numbers, whose sums are exact in any order.
  drawn = np.random.default_rng(number).integers(1, 2**32, number)
  return tf.constant(drawn.astype(np.float64))
