"""Tests of descriptions of models, and of models with nothing to train."""

from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import small_problem
from tests.refusals import rejected
from tff_fair import aggregators, algorithms, evaluation, rounds
from tff_fair.client_works import local_model

SGD = small_problem.optimizer()


def keras_model():
  model = tf.keras.Sequential(
    [tf.keras.layers.Dense(3, input_shape=(5,), kernel_initializer="zeros")]
  )
  model.trainable = False
  return tff.learning.models.from_keras_model(
    model,
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=small_problem.INPUT_SPEC,
  )


def functional_model():
  @tf.function
  def predict(weights, x, training):
    del training
    return x @ weights[1][0]

  return small_problem.functional_model(
    initial_weights=((), (np.zeros((5, 3), np.float32),)),
    predict_on_batch_fn=predict,
  )


MODELS = {"keras": keras_model, "functional": functional_model()}


@pytest.mark.parametrize("name", ["fedavg", "ditto"])
def test_a_process_describes_its_model_once(name):
  model_fn = mock.Mock(side_effect=small_problem.keras_model)
  algorithms.build(name, model_fn, client_optimizer=SGD)
  # The calls are for types, for initial weights, and for a client's graph.
  assert model_fn.call_count == 3


@pytest.mark.parametrize("model", MODELS)
def test_a_model_with_nothing_to_train_is_refused(model):
  model_fn = MODELS[model]
  with rejected("model_fn"):
    algorithms.build("fedavg", model_fn, client_optimizer=SGD)
  with rejected("model_fn"):
    rounds.compose_client_work(model_fn, None, aggregators.FedAvgFactory())


@pytest.mark.parametrize("model", MODELS)
def test_a_model_with_nothing_to_train_can_be_evaluated(model):
  weights = local_model.describe(MODELS[model]).initial_weights()
  evaluate = evaluation.build_client_evaluation(MODELS[model])
  rows = evaluate(weights, [small_problem.whole(12)])
  np.testing.assert_allclose(rows["loss"], [np.log(3)], rtol=1e-6)
