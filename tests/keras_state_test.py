"""Tests that building processes leaves a user's Keras models unchanged."""

import functools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tests import source_tree
from tests.experiments.training import small_run
from tff_fair import (
  aggregators,
  algorithms,
  client_works,
  evaluation,
  experiments,
  keras_state,
)
from tff_fair.label_correction import federated

pytestmark = pytest.mark.tff

LAYERS = tf.keras.layers
X = np.ones([4, 5], np.float32)
Y = np.ones([4, 3], np.float32)
SGD = tff.learning.optimizers.build_sgdm(0.1)
SPEC = (
  tf.TensorSpec([None, 5], tf.float32),
  tf.TensorSpec([None], tf.int32),
)


class Subclass(tf.keras.Model):
  def __init__(self):
    super().__init__()
    self.hidden, self.last = LAYERS.Dense(4), Last()

  def call(self, inputs):
    return self.last(self.hidden(inputs))


class Last(tf.keras.layers.Dense):
  def __init__(self):
    super().__init__(3)


def functional():
  inputs = tf.keras.Input([5])
  return tf.keras.Model(inputs, LAYERS.Dense(3)(LAYERS.Dropout(0.5)(inputs)))


def sequential():
  return tf.keras.Sequential([LAYERS.Dense(3, input_shape=[5])])


def model_fn():
  return tff.learning.models.from_keras_model(
    sequential(),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=SPEC,
    metrics=[tf.keras.metrics.SparseCategoricalAccuracy()],
  )


def clients():
  draws = np.random.default_rng(0)
  return {
    name: (draws.normal(size=[8, 5]).astype(np.float32), np.arange(8) % 3)
    for name in "abc"
  }


class Earlier:
  """Models and metrics that a user built before a process."""

  def __init__(self):
    self.models = [sequential(), functional(), Subclass()]
    self.unbuilt = tf.keras.Sequential([LAYERS.Dense(3)])
    self.metric = tf.keras.metrics.MeanSquaredError()
    self.before = [model(X).numpy() for model in self.models]

  def check_calls(self):
    for model, before in zip(self.models, self.before, strict=True):
      np.testing.assert_array_equal(model(X), before)

  def check(self):
    self.check_calls()
    assert float(self.metric(Y, Y)) == 0
    for model in (*self.models, self.unbuilt):
      assert tf.keras.Sequential([model]).predict(X, verbose=0).shape == (4, 3)
      model.compile("sgd", "mse", metrics=["mae"])
      assert model.fit(X, Y, verbose=0).history["mae"]


def stock_work():
  return tff.learning.templates.build_model_delta_client_work(
    model_fn, SGD, tff.learning.ClientWeighting.NUM_EXAMPLES
  )


def work_of_a_user():
  return client_works.with_signals(stock_work(), model_fn, learning_rate=0.1)


METHODS = ("fedavg", "fedfv", "ditto", "fedmdfg", "adafed", "afl")
BUILDERS: dict[str, Callable[[], object]] = {
  "task": lambda: tasks.from_client_data(clients(), 0.25, sequential),
  "task of a trained model": lambda: tasks.from_client_data(
    clients(), 0.25, trained
  ),
  "functional form": lambda: tasks.load("digits").model,
  **{
    name: functools.partial(
      algorithms.build, name, model_fn, client_optimizer=SGD, num_clients=3
    )
    for name in METHODS[:-1]
  },
  "afl": lambda: algorithms.build_afl(
    model_fn, client_optimizer=SGD, num_clients=3
  ),
  "evaluation": lambda: evaluation.build_client_evaluation(model_fn),
  "personal": lambda: evaluation.build_personal_evaluation(model_fn),
  "predictions": lambda: federated.build_predictions(
    model_fn, num_classes=3, with_softmax=True
  ),
  "correction": lambda: federated.build_round(
    model_fn,
    SGD,
    client_works.TrainingSettings(batch_size=4),
    num_classes=3,
    with_softmax=True,
  ),
  "work of a user": work_of_a_user,
  "process of a user's work": lambda: algorithms.compose_client_work(
    model_fn, work_of_a_user(), aggregators.FedFvFactory()
  ),
}
SHORT = (
  *("task", "task of a trained model", "functional form", "fedavg"),
  *("work of a user", "process of a user's work"),
)


def trained():
  model = sequential()
  model.set_weights([np.ones([5, 3]), np.zeros(3)])
  return model


@pytest.mark.parametrize(
  "names", [SHORT, pytest.param((*BUILDERS,), marks=pytest.mark.long)]
)
def test_models_from_before_work_afterwards(names):
  earlier = Earlier()
  for name in names:
    assert BUILDERS[name]() is not None, name
    earlier.check_calls()
  earlier.check()


def test_models_work_between_the_rounds_of_a_run(monkeypatch, tmp_path):
  names = [LAYERS.Dense(5).name for _ in range(20)]
  earlier, calls = Earlier(), []
  small_run.before_round(
    monkeypatch, 2, lambda: calls.append(earlier.check_calls())
  )
  # The phases of a round in parts are built as the first round begins.
  spec = small_run.SMALL.replace(algorithm="gifair", clients_per_part=2)
  small_run.train(spec, tmp_path / "run")
  assert calls == [None]
  # Keras refuses a model with two layers of the same name.
  assert not {LAYERS.Dense(5).name for _ in range(20)} & {*names, "dense"}
  earlier.check()


def test_a_model_from_before_is_audited_on_a_task_of_a_user():
  inputs = tf.keras.Input([5])
  model = tf.keras.Model(inputs, LAYERS.Dense(2)(inputs))
  found = experiments.audit(
    model=model, task=f"{source_tree.ROOT}/examples/own_task.py:hospitals"
  )
  assert found.summary["num_clients"] == 3


def test_a_refused_model_keeps_its_sigmoid():
  model = tf.keras.Sequential([LAYERS.Dense(1, "sigmoid", input_shape=[5])])
  data = {k: (x, y % 2) for k, (x, y) in clients().items()}
  for build in (lambda: model, lambda: tf.keras.Sequential([model])):
    with pytest.raises(ValueError, match="same model each time"):
      tasks.from_client_data(data, 0.25, build)
  assert model.layers[-1].activation is tf.keras.activations.sigmoid


def test_names_go_on_after_a_block_with_fresh_ones():
  first = LAYERS.Dense(3)
  with keras_state.fresh_names():
    assert LAYERS.Dense(3).name == "dense"
  later = LAYERS.Dense(3)
  assert later.name not in {first.name, "dense"}
  inputs = tf.keras.Input([5])
  assert tf.keras.Model(inputs, later(first(inputs))).count_params()


def test_layers_in_a_graph_stay_usable_there():
  with tf.Graph().as_default():
    layer = LAYERS.Dense(3)
    with keras_state.preserve():
      LAYERS.Dense(2)
    assert layer(tf.zeros([2, 5])).shape == [2, 3]
