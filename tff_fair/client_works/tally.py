"""Sums loss and accuracy over the batches that a model has seen."""

import re
from typing import Any, NamedTuple

import tensorflow as tf

from tff_fair.client_works import batches, local_model
from tff_fair.types import TensorStructure

# Matches "top_k_categorical_accuracy" and "top5_accuracy", but not "top_1".
_TOP_K_NAME = re.compile(r"top[\W_]?(?!1(\D|$))[k\d]")


class Tally(NamedTuple):
  """The sums over all batches so far."""

  num_examples: tf.Tensor  # int64[].
  loss_sum: tf.Tensor  # float64[], the sum over examples.
  # float64[], the number of examples whose label has the largest output; NaN
  # if labels and outputs cannot be compared; `()` if hits are not counted.
  hits: tf.Tensor | tuple[()]
  metrics: TensorStructure


def start(model: local_model.LocalModel, *, with_hits: bool = True) -> Tally:
  """Returns an empty tally, and resets the model's metrics."""
  zero = tf.zeros([], tf.float64)
  return Tally(
    tf.zeros([], tf.int64),
    zero,
    zero if with_hits else (),
    model.empty_metrics(),
  )


def add(
  tally: Tally, batch: batches.Batch, output: local_model.ForwardPass
) -> Tally:
  """Returns the tally after one more batch."""
  size = tf.cast(output.num_examples, tf.float64)
  hits = tally.hits
  if not isinstance(hits, tuple):
    hits += _share_of_hits(batch, output.predictions) * size
  return Tally(
    tally.num_examples + output.num_examples,
    tally.loss_sum + tf.cast(output.loss, tf.float64) * size,
    hits,
    output.metrics,
  )


def mean_loss(tally: Tally) -> tf.Tensor:
  """Returns the mean loss over examples, float32[]; 0 without examples."""
  return _mean(tally.loss_sum, tally)


def accuracy(model: local_model.LocalModel, tally: Tally) -> tf.Tensor:
  """Returns the accuracy, float32[].

  If the model has an accuracy metric, the accuracy is its value, since metrics
  handle masks and sequences. A metric named "accuracy" comes first, then other
  names with that word, then top-k accuracies ("top_5_accuracy"). Without such a
  metric, the accuracy is the share of hits; NaN if hits cannot be counted.
  """
  values = model.finalized_metrics(tally.metrics)
  named = [name for name in values if "accuracy" in name.lower()]
  if named:
    # Among equally close names, `min` takes the first.
    return tf.cast(values[min(named, key=_distance_to_accuracy)], tf.float32)
  return _mean(tally.hits, tally)


def or_zero(accuracy: tf.Tensor) -> tf.Tensor:
  """Returns an accuracy as clients report it: NaN becomes 0."""
  return tf.where(tf.math.is_nan(accuracy), 0.0, accuracy)


def _distance_to_accuracy(name: str) -> tuple[bool, bool]:
  lowered = name.lower()
  return lowered != "accuracy", bool(_TOP_K_NAME.search(lowered))


def _mean(total: tf.Tensor, tally: Tally) -> tf.Tensor:
  size = tf.cast(tally.num_examples, tf.float64)
  return tf.cast(tf.math.divide_no_nan(total, size), tf.float32)


def _share_of_hits(batch: batches.Batch, predictions: Any) -> tf.Tensor:
  labels = batches.labels(batch)
  unknown = tf.constant(float("nan"), tf.float64)
  if not tf.is_tensor(labels) or not tf.is_tensor(predictions):
    return unknown
  if not labels.dtype.is_integer or not predictions.dtype.is_floating:
    return unknown
  if labels.shape.rank is None or predictions.shape.rank is None:
    return unknown
  if labels.shape.rank == predictions.shape.rank and labels.shape[-1] == 1:
    labels = tf.squeeze(labels, -1)
  # With a single output, the position of the largest output is meaningless.
  if labels.shape.rank + 1 != predictions.shape.rank or (
    predictions.shape[-1] == 1
  ):
    return unknown
  hits = tf.equal(tf.argmax(predictions, axis=-1), tf.cast(labels, tf.int64))
  return tf.reduce_mean(tf.cast(hits, tf.float64))
