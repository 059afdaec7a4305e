"""Client work on all kinds of models: without metrics, with dropout, ..."""

import collections
import functools
import itertools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.cases import one_of_each
from tests.client_works import local_work
from tff_fair import client_dataset, client_works, evaluation

ARRAYS = small_problem.client_arrays()
NAMED_SPEC = collections.OrderedDict(
  zip(("x", "y"), small_problem.INPUT_SPEC, strict=True)
)


def keras(layers, *, metrics=(), loss=None, input_spec=None):
  """Returns a `model_fn` of Keras layers, whose weights are always the same."""

  def model_fn():
    tf.keras.utils.set_random_seed(3)
    return tff.learning.models.from_keras_model(
      tf.keras.Sequential(
        [tf.keras.layers.InputLayer(small_problem.NUM_FEATURES), *layers()]
      ),
      loss=loss
      or tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      input_spec=input_spec or small_problem.INPUT_SPEC,
      metrics=[metric() for metric in metrics],
    )

  return model_fn


def dense():
  kernel, bias = map(
    tf.keras.initializers.Constant, small_problem.initial_weights()
  )
  return tf.keras.layers.Dense(
    small_problem.NUM_CLASSES, kernel_initializer=kernel, bias_initializer=bias
  )


def data(client_id=31, *, named=False, labels=None):
  x, y = ARRAYS[client_id]
  y = y if labels is None else labels
  examples = collections.OrderedDict(x=x, y=y) if named else (x, y)
  return client_dataset(client_id, tf.data.Dataset.from_tensors(examples))


def run(model_fn, dataset, *, evaluates=True, **settings):
  """Returns a client's result, the round's metrics, and evaluation rows."""
  settings = {"batch_size": 4, **settings}
  process = client_works.build_training(
    model_fn,
    small_problem.optimizer(),
    client_works.TrainingSettings(**settings),
  )
  weights = local_work.initial_weights(model_fn)
  output = local_work.run(process, [dataset], weights=weights)
  (result,) = output.result
  rows = None
  if evaluates:
    rows = evaluation.build_client_evaluation(model_fn)(weights, [dataset])
  return result, output.measurements["train"], rows


@pytest.mark.parametrize(
  "model_fn",
  [
    small_problem.functional_model({}, input_spec=NAMED_SPEC),
    keras(lambda: [dense()], input_spec=NAMED_SPEC),
  ],
  ids=["functional", "keras"],
)
def test_batches_may_be_dicts_and_models_have_no_metrics(model_fn):
  result, _, rows = run(model_fn, data(named=True))
  wanted = reference.run_client(reference.initial_theta(), 31)
  np.testing.assert_allclose(
    local_work.flat(result.update), wanted.update, atol=1e-6
  )
  signals = result.update_weight
  assert signals.loss == pytest.approx(wanted.loss, rel=1e-6)
  # Without metrics, the accuracy is the share of hits.
  assert signals.accuracy == pytest.approx(wanted.accuracy, rel=1e-6)
  assert rows["accuracy"][0] == signals.accuracy


def test_a_regression_has_no_accuracy():
  labels = np.linspace(-1, 1, 16, dtype=np.float32)[:, np.newaxis]
  model_fn = keras(
    lambda: [tf.keras.layers.Dense(1, kernel_initializer="ones")],
    metrics=[tf.keras.metrics.MeanAbsoluteError],
    loss=tf.keras.losses.MeanSquaredError(),
    input_spec=(
      small_problem.INPUT_SPEC[0],
      tf.TensorSpec([None, 1], tf.float32),
    ),
  )
  result, metrics, rows = run(model_fn, data(labels=labels))
  assert result.update_weight.accuracy == 0  # NaN would leave the client out.
  assert result.update_weight.num_examples == 16
  assert np.isnan(rows["accuracy"][0])
  x, _ = ARRAYS[31]
  loss = np.mean((x.sum(axis=1) - labels[:, 0]) ** 2)
  assert result.update_weight.loss == pytest.approx(loss, rel=1e-5)
  assert rows["loss"][0] == pytest.approx(loss, rel=1e-5)
  assert metrics["mean_absolute_error"] > 0


def test_dropout_is_on_in_training_and_off_before_it():
  model_fn = keras(lambda: [tf.keras.layers.Dropout(0.5), dense()])
  result, _, rows = run(model_fn, data())
  wanted = reference.run_client(reference.initial_theta(), 31)
  assert result.update_weight.loss == pytest.approx(wanted.loss, rel=1e-6)
  assert rows["loss"][0] == result.update_weight.loss
  assert rows["accuracy"][0] == result.update_weight.accuracy
  difference = local_work.flat(result.update) - wanted.update
  assert np.abs(difference).max() > 1e-3


@pytest.mark.filterwarnings("ignore:Batch Normalization contains")
def test_weights_that_are_not_trained_are_received_and_kept():
  # The loss is computed in inference mode, with the received statistics.
  model_fn = keras(lambda: [tf.keras.layers.BatchNormalization(), dense()])
  weights = local_work.initial_weights(model_fn)
  mean, variance = weights.non_trainable
  weights = type(weights)(weights.trainable, [mean + 0.5, variance * 4])
  process = client_works.build_training(
    model_fn,
    small_problem.optimizer(),
    client_works.TrainingSettings(batch_size=4),
  )
  output = local_work.run(process, [data(), data()], weights=weights)
  x, y = ARRAYS[31]
  normalized = (x - 0.5) / np.sqrt(4 + 1e-3)
  loss, _ = reference.loss_and_gradient(
    reference.initial_theta(), normalized, y
  )
  for result in output.result:
    assert result.update_weight.loss == pytest.approx(loss, rel=1e-5)
    assert len(tf.nest.flatten(result.update)) == 4


def test_weights_without_a_gradient_stay():
  def predict(weights, x, training):
    del training
    (kernel, bias, unused), _ = weights
    del unused
    return x @ kernel + bias

  kernel, bias = small_problem.initial_weights()
  model = small_problem.functional_model(
    {},
    initial_weights=((kernel, bias, np.ones([2], np.float32)), ()),
    predict_on_batch_fn=tf.function(predict),
  )
  for mu in (0.0, 1.0):
    result, _, _ = run(model, data(), evaluates=False, proximal_mu=mu)
    *used, unused = result.update
    wanted = reference.run_client(reference.initial_theta(), 31, mu=mu)
    np.testing.assert_allclose(local_work.flat(used), wanted.update, atol=1e-6)
    np.testing.assert_array_equal(unused, [0, 0])
    assert result.update_weight.num_examples == 16


IDS = small_problem.CLIENT_IDS[:3]
EPOCHS = 2


@functools.cache
def stock_metrics(model):
  stock = tff.learning.algorithms.build_weighted_fed_avg(
    local_work.MODELS[model], client_optimizer_fn=small_problem.optimizer()
  )
  datasets = [
    small_problem.batched(k).map(lambda _, batch: batch).repeat(EPOCHS)
    for k in IDS
  ]
  output = stock.next(stock.initialize(), datasets)
  return output.metrics["client_work"]["train"]


@pytest.mark.parametrize(
  ("model", "loss_at"),
  one_of_each(
    itertools.product(("keras", "functional"), ("before", "training", "after")),
    lambda case: case[1],
  ),
)
def test_metrics_are_those_of_stock_training(model, loss_at):
  # The passes that compute losses must not change the metrics.
  process = local_work.build(model, loss_at=loss_at, local_epochs=EPOCHS)
  output = local_work.run(process, [small_problem.batched(k) for k in IDS])
  expected = stock_metrics(model)
  actual = output.measurements["train"]
  assert list(actual) == list(expected)
  for name, value in expected.items():
    assert actual[name] == pytest.approx(value, rel=1e-5), name
