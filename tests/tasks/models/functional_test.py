"""Tests of models in both of TFF's forms."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tasks
import tff_fair
from tasks import models
from tests.cases import one_of_each


def _round(model, *clients, **options):
  process = tff_fair.algorithms.build_fedavg(
    model,
    **{
      "client_optimizer": tff.learning.optimizers.build_sgdm(0.1),
      "batch_size": 7,
      **options,
    },
  )
  data = [tff_fair.client_dataset(k, data) for k, data in enumerate(clients)]
  return process.next(process.initialize(), data)


def _check_alike(found, expected):
  for ours, theirs in zip(
    found.state.global_model_weights.trainable,
    expected.state.global_model_weights.trainable,
    strict=True,
  ):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
  metrics, wanted = (
    output.metrics["client_work"]["train"] for output in (found, expected)
  )
  assert list(metrics) == list(wanted)
  for column, value in wanted.items():
    assert metrics[column].dtype == value.dtype
    np.testing.assert_allclose(metrics[column], value, rtol=1e-5)


@pytest.mark.parametrize(
  ("name", "options"),
  one_of_each(
    [
      ("digits", {}),
      ("synthetic", {"num_clients": 3}),
      ("emnist_character", {"synthetic": True, "model": "mlp"}),
    ]
  ),
)
def test_dense_models_train_as_in_keras(name, options):
  task = tasks.load(name, seed=3, **options)
  assert isinstance(task.model, tff.learning.models.FunctionalModel)
  assert task.model is task.model
  expected, found = (
    _round(model, task.train_data(0), task.train_data(1))
    for model in (task.model_fn, task.model)
  )
  _check_alike(found, expected)


@pytest.mark.parametrize("hidden_units", one_of_each([[6, 5], []]))
def test_double_softmax_stays_double(hidden_units):
  spec = (
    tf.TensorSpec([None, 4], tf.float32),
    tf.TensorSpec([None], tf.int32),
  )

  def build():
    return models.mlp_double_softmax((4,), hidden_units, 3, 0)

  data = tf.data.Dataset.from_tensors(
    (np.eye(4, dtype=np.float32), np.array([0, 1, 2, 0], np.int32))
  )
  functional = models.functional_model_fn(build, spec)()
  expected, found = (
    _round(model, data) for model in (models.model_fn(build, spec), functional)
  )
  _check_alike(found, expected)


@pytest.mark.parametrize("model", ["cnn", "cnn_dropout"])
def test_models_with_convolutions_stay_in_keras(model):
  task = tasks.load("emnist_character", synthetic=True, model=model)
  assert task.functional_model_fn() is None
  assert task.model is task.model_fn


def test_bag_of_words_trains_as_in_keras():
  spec = (tf.TensorSpec([None, 2], tf.int32), tf.TensorSpec([None, 3]))

  def build():
    return models.bag_of_words_regression(6, 3, 0)

  batch = (
    np.int32([[1, 2], [3, 0], [4, 5], [6, 6]]),
    np.float32([[1, 0, 1], [0, 1, 0], 3 * [0], 3 * [1]]),
  )
  data = 2 * [tf.data.Dataset.from_tensors(batch)]
  expected, found = (
    _round(
      model,
      *data,
      client_optimizer=tff.learning.optimizers.build_sgdm(1.0),
      batch_size=3,
    )
    for model in (
      models.multi_label_model_fn(build, spec, top_k=2),
      models.multi_label_functional_model_fn(build, spec, top_k=2)(),
    )
  )
  _check_alike(found, expected)
  recall = expected.metrics["client_work"]["train"]["recall_at_2_accuracy"]
  assert 0 < recall < 1
