"""Tests that models of Keras' own parts load in each format without --trust."""

import numpy as np
import pytest
import tensorflow as tf

from tests.cases import one_of_each
from tff_fair.experiments.runs import model_files

K, L = tf.keras, tf.keras.layers
SEQUENCE = (6, 4)


def functional(build, *shape):
  x = K.Input(shape or (8,))
  return K.Model(x, build(x))


def with_calls(x):
  y = tf.nn.relu(x + 1) * 2 - tf.concat([x, -x], 1)[:, :8] / 3.0 ** tf.abs(x)
  y += tf.norm(y, axis=-1, keepdims=True) + tf.random.normal(tf.shape(y))
  return tf.linalg.matmul(tf.where(y > 0, y, 0.0), tf.ones((8, 2)))


def recurrent(x):
  cells = [L.LSTMCell(3), L.GRUCell(2)]
  x = L.RNN(L.StackedRNNCells(cells), return_sequences=True)(x)
  return L.Bidirectional(L.GRU(3), backward_layer=L.LSTM(2, go_backwards=True))(
    L.SimpleRNN(3, return_sequences=True)(x)
  )


def convolutional(x):
  x = L.RandomFlip()(L.Rescaling(1 / 255)(tf.image.resize(x, (8, 8))))
  x = L.BatchNormalization()(L.SeparableConv2D(4, 3, activation=tf.nn.silu)(x))
  return L.Dense(2)(L.GlobalAveragePooling2D()(x))


def attending(x):
  x = L.Add()([x, L.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)])
  return L.LayerNormalization()(x)


def within_another(x):
  inner = K.Sequential([K.Input((8,)), L.Dense(4)])
  inner.compile("sgd", "mse")
  return L.TimeDistributed(inner)(x)


def of_words():
  words = L.TextVectorization(20, output_sequence_length=5)
  words.adapt(["a b c", "b c d"])
  text = K.Input((1,), dtype="string")
  return K.Sequential([text, words, L.Embedding(20, 4), L.LSTM(3), L.Dense(2)])


def normalized():
  normalization = L.Normalization()
  normalization.adapt(np.arange(80.0).reshape(10, 8))
  return functional(lambda x: L.Dense(2)(normalization(x)))


def compiled():
  class Own(tf.keras.losses.Loss):
    def call(self, y_true, y_pred):
      return tf.reduce_mean(y_pred - y_true)

  model = functional(L.Dense(2, activation="softmax", kernel_regularizer="l2"))
  rate = K.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
  model.compile(K.optimizers.Adam(rate), loss=Own(), metrics=["accuracy"])
  return model


def of_mixed_precision():
  policy = K.mixed_precision.Policy("mixed_bfloat16")
  return functional(lambda x: L.Dense(2)(L.Dense(4, dtype=policy)(x)))


MODELS = {
  "calls": lambda: functional(with_calls),
  "recurrent": lambda: functional(recurrent, *SEQUENCE),
  "convolutional": lambda: functional(convolutional, 16, 16, 3),
  "film": lambda: functional(L.ConvLSTM2D(2, 3), 3, 8, 8, 1),
  "attending": lambda: functional(attending, *SEQUENCE),
  "within another": lambda: functional(within_another, 3, 8),
  "of words": of_words,
  "normalized": normalized,
  "compiled": compiled,
  "of mixed precision": of_mixed_precision,
}


# Keras does not write the vocabulary of a model into .h5 files.
FILES = [
  (kind, name)
  for kind in MODELS
  for name in ("m.keras", "m.h5", "folder")
  if (kind, name) != ("of words", "m.h5")
]


@pytest.mark.parametrize(
  ("kind", "name"), one_of_each(FILES, kind=lambda file: file[0])
)
def test_ordinary_models_load(kind, name, tmp_path):
  model = MODELS[kind]()
  model.save(str(tmp_path / name))
  loaded = model_files.load_model(tmp_path / name)
  for found, saved in zip(arrays(loaded), arrays(model), strict=True):
    np.testing.assert_array_equal(found, saved)


def arrays(model):
  return [w.numpy() for w in model.weights if isinstance(w, tf.Variable)]
