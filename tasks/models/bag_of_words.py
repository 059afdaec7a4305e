"""Logistic regression from bags of words to several labels at once."""

import tensorflow as tf

from tasks import task
from tasks.models import layers, objectives


def bag_of_words_regression(
  num_words: int, num_labels: int, seed: int
) -> tf.keras.Model:
  """Builds a logistic regression on the share of each word in a text.

  It maps word numbers, int[n, length], from 1 to num_words with 0 for padding,
  to logits, float32[n, num_labels], and reads only the weights of words
  that occur.
  """
  return tf.keras.Sequential(
    [
      tf.keras.layers.Input([None], dtype=tf.int32),
      _MeanOfRows(num_words, num_labels, seed),
    ]
  )


class _MeanOfRows(tf.keras.layers.Layer):
  """A dense layer on the shares of words, which are 0 in an empty text."""

  def __init__(self, num_words: int, num_labels: int, seed: int) -> None:
    super().__init__()
    self._kernel = self.add_weight(
      name="kernel",
      shape=[num_words, num_labels],
      initializer=next(layers.glorot_uniform(seed)),
    )
    self._bias = self.add_weight(
      name="bias", shape=[num_labels], initializer="zeros"
    )

  def call(self, words: tf.Tensor) -> tf.Tensor:
    places = tf.where(words > 0)
    # Reads only the weights of words that occur.
    rows = tf.gather(self._kernel, tf.gather_nd(words, places) - 1)
    sums = tf.math.unsorted_segment_sum(rows, places[:, 0], tf.shape(words)[0])
    counts = tf.math.count_nonzero(words, axis=1, keepdims=True)
    means = tf.math.divide_no_nan(sums, tf.cast(counts, sums.dtype))
    return means + self._bias

  def exportable(self) -> tf.keras.Model:
    """Returns an equivalent model of Keras layers, for `models.exportable`."""
    num_words, num_labels = self._kernel.shape
    words = tf.keras.layers.Input([None], dtype=tf.int32)
    count = tf.keras.layers.CategoryEncoding(num_words + 1, "count")
    counts = count(words)[:, 1:]  # Number 0 is padding, not a word.
    total = tf.reduce_sum(counts, axis=1, keepdims=True)
    shares = tf.math.divide_no_nan(counts, total)
    logits = tf.keras.layers.Dense(num_labels)(shares)
    return tf.keras.Model(words, logits, name=self.name)


_TOP_K = 5  # The number of labels that count as predicted.
_RECALL = f"recall_at_{_TOP_K}_accuracy"


class _SummedBinaryCrossentropy(tf.keras.losses.Loss):
  """Binary cross entropy from logits, summed over the labels."""

  def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    losses = tf.nn.sigmoid_cross_entropy_with_logits(
      tf.cast(y_true, y_pred.dtype), y_pred
    )
    return tf.reduce_sum(losses, axis=-1)


class _Recall(tf.keras.metrics.Mean):
  """Recall: the share of true labels that are among the `_TOP_K` predicted."""

  def update_state(
    self,
    y_true: tf.Tensor,
    y_pred: tf.Tensor,
    sample_weight: tf.Tensor | None = None,
  ) -> tf.Operation:
    """Adds a batch of labels, 0 or 1, and logits, both [n, labels]."""
    del sample_weight  # TFF passes none.
    is_predicted = _is_among_largest(y_pred)
    return super().update_state(is_predicted, tf.cast(y_true, tf.float32))


def _is_among_largest(logits: tf.Tensor) -> tf.Tensor:
  """Returns 1 at an example's `_TOP_K` largest logits, else 0, [n, labels]."""
  num_labels = logits.shape[-1]
  _, largest = tf.math.top_k(logits, min(_TOP_K, num_labels))
  return tf.reduce_sum(tf.one_hot(largest, num_labels), axis=-2)


def _count_recalled(
  labels: tf.Tensor, logits: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
  labels = tf.cast(labels, tf.float32)
  return (
    tf.reduce_sum(labels * _is_among_largest(logits)),
    tf.reduce_sum(labels),
  )


_FORM = objectives.LossAndMetric(
  _SummedBinaryCrossentropy, _Recall, _RECALL, _count_recalled
)


def multi_label_objective() -> task.Objective:
  """Returns the objective: summed binary cross entropies, and recall at 5."""
  return task.Objective(
    model_fn=_FORM.model_fn,
    functional_model_fn=_FORM.functional,
    activation="sigmoid",
  )
