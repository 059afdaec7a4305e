"""LSTMs for characters, words and sentences, with their loss and metric.

Padding is at the end of a sequence, where it does not affect earlier outputs.
So the recurrent layers (Hochreiter, Schmidhuber, 1997) need no mask; only the
loss and the metric need one. A model for whole sentences uses the output before
the padding, so it has a mask, too.
"""

import functools
from collections.abc import Collection, Iterator

import numpy as np
import tensorflow as tf

from tasks import task
from tasks.models import layers, objectives
from tasks.models.layers import LSTM


def character_lstm(
  num_tokens: int,
  seed: int,
  *,
  num_layers: int = 2,
  units: int = 256,
  every_step: bool = True,
) -> tf.keras.Model:
  """Builds the character model of McMahan et al. (AISTATS 2017).

  As in TFF's baseline, it maps int[n, length] to float32[n, length,
  num_tokens]; if `every_step` is false, to float32[n, num_tokens].
  """
  layer_seeds = iter(layers.int32_seeds(seed, 3 + 2 * num_layers))
  model = _start_model(_embedding(num_tokens, 8, next(layer_seeds)))
  for layer in range(num_layers):
    kernel = tf.keras.initializers.HeNormal(next(layer_seeds))
    returns_all = every_step or layer < num_layers - 1
    model.add(_lstm(units, kernel, next(layer_seeds), every_step=returns_all))
  model.add(_dense(num_tokens, layer_seeds))
  return model


def word_lstm(
  num_tokens: int,
  seed: int,
  *,
  embedding_size: int = 96,
  num_layers: int = 1,
  units: int = 670,
) -> tf.keras.Model:
  """Builds the word model of Reddi et al. (ICLR 2021).

  Each LSTM is followed by a dense layer of the embedding's size, as in TFF's
  baseline. With one LSTM, it is also VRed's "1 LSTM + 2 FC". The model maps
  int[n, length] to float32[n, length, num_tokens].
  """
  layer_seeds = iter(layers.int32_seeds(seed, 2 + 3 * num_layers))
  model = _start_model(
    _embedding(num_tokens, embedding_size, next(layer_seeds))
  )
  for _ in range(num_layers):
    kernel = tf.keras.initializers.GlorotUniform(next(layer_seeds))
    model.add(_lstm(units, kernel, next(layer_seeds), every_step=True))
    model.add(_dense(embedding_size, layer_seeds))
  model.add(_dense(num_tokens, layer_seeds))
  return model


def sentence_lstm(
  num_tokens: int,
  num_classes: int,
  seed: int,
  *,
  embedding: np.ndarray | None = None,
  embedding_size: int = 100,
  num_layers: int = 2,
  units: int = 100,
) -> tf.keras.Model:
  """Builds a classifier of sentences: stacked LSTMs and one dense layer.

  Token 0 is padding at the end. If `embedding`, float32[num_tokens, size], is
  given, it is not trained. The model maps int[n, length] to float32[n,
  num_classes].
  """
  layer_seeds = iter(layers.int32_seeds(seed, 2 + 2 * num_layers))
  embedding_seed = next(layer_seeds)
  if embedding is None:
    first = _embedding(num_tokens, embedding_size, embedding_seed, mask=True)
  else:
    first = tf.keras.layers.Embedding(
      *embedding.shape,
      embeddings_initializer=tf.keras.initializers.Constant(embedding),
      mask_zero=True,
      trainable=False,
    )
  model = _start_model(first)
  for layer in range(num_layers):
    kernel = tf.keras.initializers.GlorotUniform(next(layer_seeds))
    returns_all = layer < num_layers - 1
    model.add(_lstm(units, kernel, next(layer_seeds), every_step=returns_all))
  model.add(_dense(num_classes, layer_seeds))
  return model


def _start_model(embedding: tf.keras.layers.Layer) -> tf.keras.Sequential:
  """Returns a sequential model with only an embedding, to add layers to."""
  tokens = tf.keras.layers.Input([None], dtype=tf.int32)
  return tf.keras.Sequential([tokens, embedding])


def _embedding(
  num_tokens: int, size: int, seed: int, *, mask: bool = False
) -> tf.keras.layers.Layer:
  return tf.keras.layers.Embedding(
    num_tokens,
    size,
    embeddings_initializer=tf.keras.initializers.RandomUniform(
      -0.05, 0.05, seed
    ),
    mask_zero=mask,
  )


def _lstm(
  units: int,
  kernel: tf.keras.initializers.Initializer,
  seed: int,
  *,
  every_step: bool,
) -> tf.keras.layers.Layer:
  return LSTM(
    units,
    kernel_initializer=kernel,
    recurrent_initializer=tf.keras.initializers.Orthogonal(seed=seed),
    return_sequences=every_step,
  )


def _dense(units: int, layer_seeds: Iterator[int]) -> tf.keras.layers.Layer:
  return tf.keras.layers.Dense(
    units,
    kernel_initializer=tf.keras.initializers.GlorotUniform(next(layer_seeds)),
  )


# The objective of models that predict every next token.

PADDING = 0


def next_token_objective(
  *, not_counted: Collection[int] = ()
) -> task.Objective:
  """Returns the objective: a mean cross entropy and an accuracy over tokens.

  Both exclude padding; the accuracy also excludes `not_counted` tokens.
  """
  return task.Objective(
    model_fn=functools.partial(
      objectives.variable_model_fn,
      loss=MaskedCrossentropy,
      metric=functools.partial(MaskedAccuracy, (PADDING, *not_counted)),
    ),
    activation="softmax",
    padding=PADDING,
  )


class MaskedCrossentropy(tf.keras.losses.Loss):
  """Mean cross entropy from logits, over the tokens that are not padding."""

  def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
    """Returns the mean, float32[]; 0 if all tokens are padding."""
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y_true, y_pred)
    counts = tf.cast(tf.not_equal(y_true, PADDING), losses.dtype)
    return tf.math.divide_no_nan(
      tf.reduce_sum(losses * counts), tf.reduce_sum(counts)
    )


class MaskedAccuracy(tf.keras.metrics.Mean):
  """The share of correct predictions, among tokens not in `not_counted`."""

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
    del sample_weight  # TFF passes none.
    for label in self._not_counted:
      counts *= tf.cast(tf.not_equal(y_true, label), tf.float32)
    hits = tf.equal(tf.argmax(y_pred, axis=-1), y_true)
    return super().update_state(tf.cast(hits, tf.float32), counts)

  def get_config(self) -> dict[str, object]:
    """Returns the constructor's arguments, from which TFF rebuilds metrics."""
    return {**super().get_config(), "not_counted": self._not_counted}
