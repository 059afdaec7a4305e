"""The TFF form of Keras models that predict each next token of a sequence."""

import functools
from collections.abc import Collection

import tensorflow as tf
import tensorflow_federated as tff

from tasks import task

PADDING = 0


def next_token_objective(
  *, not_counted: Collection[int] = ()
) -> task.Objective:
  """Returns the objective of `next_token_model_fn`."""
  return task.Objective(
    model_fn=functools.partial(next_token_model_fn, not_counted=not_counted),
    activation="softmax",
  )


def next_token_model_fn(
  build: task.KerasModelFn,
  element_spec: task.ElementSpec,
  *,
  not_counted: Collection[int] = (),
) -> task.ModelFn:
  """Returns the TFF form of a sequence model, as `Task.model_fn` wants it.

  Args:
    build: Returns a new Keras model whose outputs are logits of each step.
    element_spec: Specs of `(x, y)`, integers [n, length]; y is 0 at padding.
    not_counted: Labels besides padding that the accuracy leaves out.

  Returns:
    A function that returns a new model. Its loss is the mean of the cross
    entropy over the tokens of a batch that are no padding, its metric the share
    of them where the largest logit is right.
  """

  def build_model() -> tff.learning.models.VariableModel:
    return tff.learning.models.from_keras_model(
      build(),
      loss=MaskedCrossentropy(),
      input_spec=element_spec,
      metrics=[MaskedAccuracy((PADDING, *not_counted))],
    )

  return build_model


class MaskedCrossentropy(tf.keras.losses.Loss):
  """Mean cross entropy over the tokens that are no padding, from logits."""

  def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """Returns the mean, float32[]; 0 of nothing but padding."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y_true, y_pred)
    counts = tf.cast(tf.not_equal(y_true, PADDING), losses.dtype)
    return tf.math.divide_no_nan(
      tf.reduce_sum(losses * counts), tf.reduce_sum(counts)
    )


class MaskedAccuracy(tf.keras.metrics.Mean):
  """Share of the counted tokens whose logit is the largest."""

  def __init__(
    self,
    not_counted: Collection[int],
    name: str = "accuracy",
    dtype: tf.DType | None = None,
  ) -> None:
    super().__init__(name, dtype)
    self._not_counted = tuple(not_counted)

  def update_state(
    self,
    y_true: tf.Tensor,
    y_pred: tf.Tensor,
    sample_weight: tf.Tensor | None = None,
  ) -> tf.Operation:
    """Adds a batch: labels integer[n, length], logits [n, length, tokens]."""
    y_true = tf.cast(y_true, tf.int64)
    counts = tf.ones_like(y_true, tf.float32)
    del sample_weight  # TFF gives none.
    for label in self._not_counted:
      counts *= tf.cast(tf.not_equal(y_true, label), tf.float32)
    hits = tf.equal(tf.argmax(y_pred, axis=-1), y_true)
    return super().update_state(tf.cast(hits, tf.float32), counts)

  def get_config(self) -> dict[str, object]:
    """Returns the constructor's arguments: TFF builds metrics anew."""
    return {**super().get_config(), "not_counted": self._not_counted}
