"""Tests of rebuilding models from plain layers, and of refused models."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tasks import models
from tasks.models import exportable


def branching():
  """Returns a model with a shortcut, as in a residual network."""
  x = tf.keras.Input([4])
  normalized = tf.keras.layers.GroupNormalization(2)(x)
  return tf.keras.Model(x, tf.keras.layers.Dense(2)(tf.nn.relu(normalized + x)))


GENERATOR = np.random.default_rng(0)
WORDS = np.array([[1, 5, 5, 0], [0, 0, 0, 0], [9, 3, 10, 1]], np.int32)
MODELS = {
  "a softmax too many": (
    lambda: models.mlp_double_softmax((4,), (3,), 2, 0),
    GENERATOR.random([5, 4], np.float32),
  ),
  "dropout": (
    lambda: models.dropout_cnn(3, 0),
    GENERATOR.random([2, 28, 28, 1], np.float32),
  ),
  "counted words": (lambda: models.bag_of_words_regression(10, 4, 0), WORDS),
  "given word vectors": (
    lambda: models.sentence_lstm(
      11, 2, 0, embedding=np.ones([11, 3], np.float32), units=2, num_layers=1
    ),
    WORDS,
  ),
  "branches": (branching, GENERATOR.random([5, 4], np.float32)),
}


def variables(model):
  return (*model.trainable_variables, *model.non_trainable_variables)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_plain_layers_computes_the_same(name):
  build, x = MODELS[name]
  model = build()
  text = json.dumps(exportable.describe(model, "it"))
  assert "tasks" not in text
  found = exportable.build(json.loads(text))
  assert found.name == "it"
  for one, other in zip(variables(model), variables(found), strict=True):
    value = GENERATOR.normal(0, 0.1, one.shape)
    one.assign(value)
    other.assign(value)
  np.testing.assert_allclose(found(x), model(x), atol=1e-6)


class Doubling(tf.keras.layers.Layer):
  """A layer that Keras does not have."""

  def call(self, inputs):
    return 2 * inputs


class Scaling(tf.keras.layers.Layer):
  """A layer whose config lacks its factor."""

  def __init__(self, factor):
    super().__init__()
    self._factor = factor

  def call(self, inputs):
    return self._factor * inputs


class OwnModel(tf.keras.Model):
  """A model that is not a graph of layers."""

  def call(self, inputs):
    return inputs


def doubled(x):
  return 2 * x


@pytest.mark.parametrize(
  ("build", "problem"),
  [
    (Doubling, "Doubling"),
    (lambda: Scaling(2.0), "Scaling"),
    (lambda: tf.keras.layers.Lambda(lambda x: 2 * x), "Lambda"),
    (lambda: tf.keras.layers.Activation(doubled), "doubled"),
  ],
)
@pytest.mark.filterwarnings("ignore:The object being serialized includes")
def test_a_part_that_keras_does_not_have_is_named(build, problem):
  registered = tf.keras.saving.get_custom_objects()
  registered["Doubling"], registered["doubled"] = Doubling, doubled
  try:
    model = tf.keras.Sequential([tf.keras.layers.Input([3]), build()])
    with pytest.raises(exportable.NotExportableError, match=problem):
      exportable.describe(model, "it")
    assert registered["doubled"] is doubled
  finally:
    del registered["Doubling"], registered["doubled"]


def test_a_config_builds_any_number_of_models():
  x = tf.keras.layers.Input([4, 8])
  attention = tf.keras.layers.MultiHeadAttention(2, 4)(x, x)
  model = tf.keras.Model(x, tf.keras.layers.Dense(2)(attention))
  config = exportable.describe(model, "it")
  before = json.dumps(config)
  draws = np.random.default_rng(0).normal(size=[3, 4, 8]).astype(np.float32)
  for _ in range(2):
    built = exportable.build(config)
    built.set_weights(model.get_weights())
    np.testing.assert_array_equal(built(draws), model(draws))
  assert json.dumps(config) == before


def test_an_error_of_keras_is_short():
  dense = tf.keras.layers.Dense(2, activation=doubled)
  model = tf.keras.Sequential([tf.keras.layers.Input([3]), dense])
  with pytest.raises(exportable.NotExportableError) as raised:
    exportable.describe(model, "it")
  assert len(str(raised.value)) < 150


def test_a_model_without_a_graph_is_refused():
  model = OwnModel()
  model(tf.zeros([1, 3]))
  with pytest.raises(exportable.NotExportableError):
    exportable.describe(model, "it")


@pytest.mark.parametrize("config", [{}, {"class_name": "Dense"}, [], None])
def test_what_describes_no_model_is_refused(config):
  with pytest.raises(exportable.NotExportableError):
    exportable.build(config)
