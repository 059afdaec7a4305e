"""Computes the sums over a client's examples from which a model is scored.

`tff_fair.metrics.class_scores` defines the sums and scores of classifiers. For
a model that predicts numbers, the sums are `absolute` and `squared`, float64[]
each: the sums of absolute and of squared errors over examples. If a model
predicts several numbers for an example, each sum gets the mean over them.
"""

import collections
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from tff_fair.client_works import batches
from tff_fair.metrics.class_scores import (
  BINS_PER_UNIT,
  NUM_BINS,
  NUM_CONFIDENCES,
)

# The sums so far, by name.
Sums: TypeAlias = collections.OrderedDict[str, tf.Tensor]


class SumsRequest(NamedTuple):
  """The sums that an evaluation returns.

  `num_classes` is the number of classes of a classifier; `None` stands for a
  model that predicts numbers. `with_histogram` adds counts of examples by class
  and log odds.
  """

  num_classes: int | None
  with_histogram: bool = False


def start(request: SumsRequest) -> Sums:
  """Returns the sums before the first batch, all 0."""
  if request.num_classes is None:
    zero = tf.zeros([], tf.float64)
    return collections.OrderedDict(absolute=zero, squared=zero)
  number = request.num_classes
  sums = collections.OrderedDict(
    counts=tf.zeros([number, 3], tf.int32),
    errors=tf.zeros([2], tf.float64),
    confidences=tf.zeros([NUM_CONFIDENCES, 3], tf.float64),
  )
  if request.with_histogram:
    sums["histogram"] = tf.zeros([number, 2, NUM_BINS], tf.int32)
  return sums


def add(sums: Sums, batch: batches.Batch, outputs: Any) -> Sums:
  """Returns the sums after one more batch.

  Labels are classes, int[n], or numbers, float[n] or float[n, t]; outputs are
  logits, float[n, classes], or t numbers, float[n, t].
  """
  labels = batches.labels(batch)
  if "absolute" in sums:
    added = _regression_sums(labels, outputs)
  else:
    added = _class_sums(tf.cast(labels, tf.int32), outputs, "histogram" in sums)
  return collections.OrderedDict(
    (name, total + added[name]) for name, total in sums.items()
  )


def _regression_sums(labels: tf.Tensor, outputs: tf.Tensor) -> Sums:
  size = tf.shape(outputs)[0]
  difference = tf.reshape(labels, [size, -1]) - tf.reshape(outputs, [size, -1])

  def total(errors: tf.Tensor) -> tf.Tensor:
    means = tf.reduce_mean(tf.cast(errors, tf.float64), -1)
    return tf.reduce_sum(means)

  # Squares may overflow float32, but only if the model has diverged.
  return collections.OrderedDict(
    absolute=total(tf.abs(difference)), squared=total(tf.square(difference))
  )


def _class_sums(
  labels: tf.Tensor, logits: tf.Tensor, with_histogram: bool
) -> Sums:
  number = logits.shape[-1]
  is_label = tf.one_hot(labels, number, dtype=tf.int32)
  predicted = tf.argmax(logits, -1, tf.int32)
  is_predicted = tf.one_hot(predicted, number, dtype=tf.int32)
  counts = [is_label, is_predicted, is_label * is_predicted]
  logs = tf.nn.log_softmax(logits)
  probabilities = tf.cast(tf.exp(logs), tf.float64)
  squares = tf.reduce_sum(
    tf.square(probabilities - tf.cast(is_label, tf.float64)), -1
  )
  # For two classes, the usual Brier score counts the square of only one class.
  squares *= 0.5 if number == 2 else 1.0
  surprise = -tf.gather(logs, labels, batch_dims=1)
  sums = collections.OrderedDict(
    counts=tf.stack([tf.reduce_sum(c, 0) for c in counts], -1),
    errors=tf.stack(
      [tf.reduce_sum(squares), tf.reduce_sum(tf.cast(surprise, tf.float64))]
    ),
    confidences=_confidences(
      tf.reduce_max(probabilities, -1), tf.equal(labels, predicted)
    ),
  )
  if with_histogram:
    sums["histogram"] = _histogram(is_label, logits)
  return sums


def _confidences(confidence: tf.Tensor, is_hit: tf.Tensor) -> tf.Tensor:
  last = NUM_CONFIDENCES - 1
  place = tf.cast(confidence * NUM_CONFIDENCES, tf.int32)
  values = [tf.ones_like(confidence), confidence, tf.cast(is_hit, tf.float64)]
  return tf.math.unsorted_segment_sum(
    tf.stack(values, -1), tf.minimum(place, last), last + 1
  )


def _histogram(is_label: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """Counts examples for each class, by log odds and whether it is the label.

  Returns int32[classes, 2, bins]; one-hot labels and logits are [n, classes].
  """
  number, bins = logits.shape[-1], NUM_BINS
  log_odds = tf.stack(
    [
      logits[:, c]
      - tf.reduce_logsumexp(
        tf.concat([logits[:, :c], logits[:, c + 1 :]], -1), -1
      )
      for c in range(number)
    ],
    -1,
  )
  scaled = tf.floor(log_odds * BINS_PER_UNIT) + bins // 2
  # If the model has diverged, log odds may be NaN; they go into the middle bin.
  scaled = tf.where(tf.math.is_nan(scaled), float(bins // 2), scaled)
  place = tf.cast(tf.clip_by_value(scaled, 0, bins - 1), tf.int32)
  first = (2 * tf.range(number) + is_label) * bins
  flat = tf.reshape(first + place, [-1])
  counted = tf.math.bincount(
    flat, minlength=2 * number * bins, maxlength=2 * number * bins
  )
  return tf.reshape(counted, [number, 2, bins])
