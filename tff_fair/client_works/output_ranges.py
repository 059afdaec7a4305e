"""What a model predicts for a client's examples: from the least to the largest.

A prediction is a number: of a classifier, the class with the largest logit; of
a model with several labels an example, a sum of random weights of the five with
the largest logits; of one that predicts numbers, the number, or a weighted sum
of several. A label is a number in the same way. So a model predicts the same
for all examples of some clients if the least `output_low` is the largest
`output_high`.
"""

import collections
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from tff_fair.client_works.batches import Batch

Kind = Literal["class", "labels", "number"]
# By name: float64[] each, or float64[width] of sums over labels.
Ranges: TypeAlias = collections.OrderedDict[str, tf.Tensor]

TOP = 5  # Labels that count as predicted.
_SUMS = ("label_sum", "label_squares")


class Outputs(NamedTuple):
  """The outputs of a model, and the labels beside them.

  Attributes:
    kind: What an example has: one class, or one in each place; a row of zeros
      and ones, a label each; or numbers.
    width: How many numbers it has.
    padding: The class that stands for no class at all.
  """

  kind: Kind
  width: int = 1
  padding: int | None = None


def start(outputs: Outputs) -> Ranges:
  """Returns the ranges over no example; of numbers also sums of labels."""
  low, high = (tf.constant(end, tf.float64) for end in (np.inf, -np.inf))
  found = collections.OrderedDict(
    output_low=low, output_high=high, label_low=low, label_high=high
  )
  if outputs.kind == "number":
    found |= dict.fromkeys(_SUMS, tf.zeros([outputs.width], tf.float64))
  return found


def add(
  ranges: Ranges, outputs: Outputs, batch: Batch, predictions: Any
) -> Ranges:
  """Returns the ranges with one batch more.

  Args:
    ranges: The ranges so far.
    outputs: What the model's outputs are.
    batch: Examples.
    predictions: The model's outputs: logits, float[n, ..., C], or numbers,
      float[n, t]. Those of another shape, or that are not finite, are from
      minus infinity to infinity.
  """
  labels = batch["y"] if isinstance(batch, Mapping) else batch[1]
  found = {}
  predicted = _predicted(outputs, labels, predictions)
  for name, values in (
    ("output", predicted),
    ("label", _labels(outputs, labels)),
  ):
    for end, reduce, choose in (
      ("low", tf.reduce_min, tf.minimum),
      ("high", tf.reduce_max, tf.maximum),
    ):
      key = f"{name}_{end}"
      found[key] = choose(ranges[key], reduce(values))
  if outputs.kind == "number":
    numbers = tf.reshape(tf.cast(labels, tf.float64), [-1, outputs.width])
    for name, powers in zip(_SUMS, (numbers, tf.square(numbers)), strict=True):
      found[name] = ranges[name] + tf.reduce_sum(powers, 0)
  return collections.OrderedDict((name, found[name]) for name in ranges)


def _predicted(
  outputs: Outputs, labels: tf.Tensor, predictions: Any
) -> tf.Tensor:
  """Returns predictions as numbers, float64[n]."""
  unknown = tf.constant([-np.inf, np.inf], tf.float64)
  extra = outputs.kind == "class"
  if (
    not tf.is_tensor(predictions)
    or not predictions.dtype.is_floating
    or (
      (outputs.kind != "number")
      and (
        predictions.shape.rank != labels.shape.rank + extra
        or predictions.shape[-1] in (None, 1)
      )
    )
  ):
    return unknown
  if outputs.kind == "class":
    values = tf.cast(tf.argmax(predictions, -1), tf.float64)
    values = _counted(outputs, labels, values)
  elif outputs.kind == "labels":
    number = predictions.shape[-1]
    _, largest = tf.math.top_k(predictions, min(TOP, number))
    values = tf.reduce_sum(tf.gather(_weights(number), largest), -1)
  else:
    values = _weighted(outputs, predictions)
  is_finite = tf.reduce_all(tf.math.is_finite(predictions))
  return tf.cond(is_finite, lambda: values, lambda: unknown)


def _labels(outputs: Outputs, labels: tf.Tensor) -> tf.Tensor:
  if outputs.kind == "class":
    return _counted(outputs, labels, tf.cast(labels, tf.float64))
  return _weighted(outputs, labels)


def _counted(
  outputs: Outputs, labels: tf.Tensor, values: tf.Tensor
) -> tf.Tensor:
  """Returns the values, [n], where labels are not padding."""
  flat = tf.reshape(values, [-1])
  if outputs.padding is None:
    return flat
  is_counted = tf.not_equal(tf.reshape(labels, [-1]), outputs.padding)
  return tf.boolean_mask(flat, is_counted)


def _weighted(outputs: Outputs, values: tf.Tensor) -> tf.Tensor:
  rows = tf.reshape(tf.cast(values, tf.float64), [-1, outputs.width])
  return tf.reduce_sum(rows * _weights(outputs.width), -1)


def _weights(number: int) -> tf.Tensor:
  """Returns random weights, float64[number]; of one number it is 1."""
  if number == 1:
    return tf.ones([1], tf.float64)
  # Of whole numbers sums are exact, in whatever order.
  drawn = np.random.default_rng(number).integers(1, 2**32, number)
  return tf.constant(drawn.astype(np.float64))
