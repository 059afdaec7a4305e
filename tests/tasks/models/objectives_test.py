"""Tests of the losses and metrics of Keras models and functional models."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from scipy.special import log_softmax
from sklearn.metrics import mean_pinball_loss

import tasks
from tasks import models, task
from tests.refusals import rejected
from tff_fair.client_works import local_model, tally as tallies


def loss_and_gradients(model_fn, weights, batch):
  """Returns a batch's loss and gradients, computed as on a client."""

  @tff.tensorflow.computation
  def compute():
    model = local_model.instantiate(model_fn)
    trainable = [tf.constant(w, tf.float32) for w in weights]

    @tf.function
    def run():
      model.receive(tff.learning.models.ModelWeights(trainable, []))
      gradients, output = model.gradients(
        local_model.flatten(trainable),
        tallies.start(model).metrics,
        tf.nest.map_structure(tf.constant, batch),
        training=True,
      )
      return output.loss, *gradients

    return run()

  return compute()


CLASSES = (
  task.element_spec([4]),
  (np.eye(4, dtype=np.float32), np.int32([0, 1, 2, 0])),
)
CASES: dict[str, tuple[Any, ...]] = {
  "classes": (
    models.class_objective(),
    lambda: models.mlp((4,), (6,), 3, 0),
    *CLASSES,
  ),
  "a second softmax": (
    models.class_objective(),
    lambda: models.mlp_double_softmax((4,), (6, 5), 3, 0),
    *CLASSES,
  ),
  "tags": (
    models.multi_label_objective(),
    lambda: models.bag_of_words_regression(6, 7, 0),
    task.element_spec([2], "int32", y_shape=[7], y_dtype="float32"),
    (
      np.int32([[1, 2], [3, 0], [4, 5], [6, 6]]),
      np.float32([[1, 0, 1] + 4 * [0], [0, 1] + 5 * [0], 7 * [0], 7 * [1]]),
    ),
  ),
  "numbers": (
    models.number_objective(),
    lambda: models.mlp((2,), (), 1, 0),
    task.element_spec([2], y_dtype="float32"),
    (
      np.float32([[1.0, 2.0], [3.0, -4.0], [0.0, 5.0]]),
      np.float32([1.5, -2.0, 1e4]),
    ),
  ),
}


@pytest.mark.parametrize("name", CASES)
def test_both_forms_have_the_same_loss_gradient_and_metrics(name):
  objective, build, spec, batch = CASES[name]
  keras = objective.model_fn(build, spec)
  functional = objective.functional_model_fn(build, spec)()
  weights = [2 * w.numpy() for w in build().trainable_weights]
  found, wanted = (
    loss_and_gradients(form, weights, batch) for form in (functional, keras)
  )
  for ours, theirs in zip(found, wanted, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
  model, state = keras(), functional.initialize_metrics_state()
  for rows in (slice(1), slice(1, None)):  # Batches of unequal sizes.
    x, y = (values[rows] for values in batch)
    output = model.forward_pass((x, y), training=False)
    state = functional.update_metrics_state(state, y, output)
  metrics = functional.finalize_metrics(state)
  values = model.report_local_unfinalized_metrics()
  assert [*metrics] == [*values]
  for column, (value, *weight) in values.items():  # Means have a count.
    assert metrics[column].dtype == value.dtype
    expected = value / weight[0] if weight else value
    np.testing.assert_allclose(metrics[column], expected, rtol=1e-5)


def test_numbers_have_the_mean_squared_error():
  objective, build, spec, (x, y) = CASES["numbers"]
  kernel, bias = np.array([[2.0], [-1.0]]), np.array([0.5])
  model_fn = objective.model_fn(build, spec)
  loss, of_kernel, of_bias = loss_and_gradients(
    model_fn, [kernel, bias], (x, y)
  )
  errors = x.astype(np.float64) @ kernel[:, 0] + bias - y
  np.testing.assert_allclose(loss, np.mean(errors**2), rtol=1e-6)
  np.testing.assert_allclose(of_kernel[:, 0], 2 * x.T @ errors / 3, rtol=1e-5)
  np.testing.assert_allclose(of_bias, [2 * errors.mean()], rtol=1e-5)
  model = model_fn()
  outputs = model.forward_pass((x, y), training=False).predictions[:, 0]
  total, count = model.report_local_unfinalized_metrics()["mean_absolute_error"]
  np.testing.assert_allclose(total, np.abs(outputs - y).sum(), rtol=1e-6)
  assert count == 3


@pytest.mark.parametrize("model", ["cnn", "cnn_dropout"])
def test_models_with_convolutions_stay_in_keras(model):
  task = tasks.load("emnist_character", synthetic=True, model=model)
  assert task.functional_model_fn() is None
  assert task.model is task.model_fn


def test_a_dense_model_has_one_functional_form():
  task = tasks.load("digits")
  assert isinstance(task.model, tff.learning.models.FunctionalModel)
  assert task.model is task.model


LOSSES = """
import tensorflow as tf

def focal(labels, logits):
  loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
  return (1 - tf.exp(-loss)) ** 2 * loss

def broken(labels, logits):
  return logits[7]

def pinball(labels, outputs):
  error = labels - outputs
  losses = tf.maximum(0.9 * error, -0.1 * error)
  return losses if len(labels.shape) == 1 else tf.reduce_mean(losses, -1)
"""


@pytest.fixture
def load(tmp_path):
  """Returns a function that loads a task of 40 examples of two clients.

  The classes are 0 0 0 1, again and again.
  """
  (tmp_path / "losses.py").write_text(LOSSES)

  def load(y=None, loss=None, **options):
    np.savez(
      tmp_path / "rows.npz",
      x=np.random.default_rng(0).normal(size=[40, 3]),
      y=np.tile([0, 0, 0, 1], 10) if y is None else y,
      client=np.repeat(["a", "b"], 20),
      split=np.tile(["train"] * 16 + ["test"] * 4, 2),
    )
    loss = loss and f"{tmp_path / 'losses.py'}:{loss}"
    file = str(tmp_path / "rows.npz")
    return tasks.load("arrays", file=file, loss=loss, **options)

  return load


def outputs_and_labels(task):
  """Returns the first client's outputs, by NumPy, and labels."""
  x, y = task.train.load(0)
  kernel, bias = (w.numpy() for w in task.keras_model_fn().weights)
  return np.float64(x) @ kernel + bias, y


def assert_loss(task, expected):
  """Checks the loss of the task's Keras model and of its functional model."""
  model, functional = task.model_fn(), task.functional_model_fn()
  batch = tuple(map(tf.constant, task.train.load(0)))
  keras = model.forward_pass(batch, training=True).loss.numpy()
  # A functional model that is made from a Keras model runs only in graphs.
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    x, y = map(tf.constant, task.train.load(0))
    outputs = functional.predict_on_batch(functional.initial_weights, x)
    found = session.run(functional.loss(outputs, y))
  assert [keras, found] == pytest.approx([expected] * 2, rel=1e-5)


@pytest.mark.parametrize(
  ("text", "weights"),
  [(None, (1, 1)), ("1,10", (1, 10)), ("balanced", (2 / 3, 2))],
)
def test_the_loss_weighs_classes(load, text, weights):
  task = load(class_weights=text)
  logits, y = outputs_and_labels(task)
  losses = -log_softmax(logits, axis=1)[range(len(y)), y]
  arrays = {"a": task.train.load(0)}
  program = tasks.from_client_data(
    arrays, arrays, task.keras_model_fn, class_weights=weights
  )
  for found in (task, program):
    assert_loss(found, np.mean(losses * np.array(weights)[y]))


@pytest.mark.parametrize(
  "text", ["1,2,3", "1", "0,1", "a,b", "1,inf", "", "balance"]
)
def test_weights_that_do_not_fit(load, text):
  with rejected("class_weights"):
    load(class_weights=text)


def test_a_loss_of_the_users_own(load):
  task = load(loss="focal")
  logits, y = outputs_and_labels(task)
  logs = log_softmax(logits, axis=1)[range(len(y)), y]
  assert_loss(task, np.mean((1 - np.exp(logs)) ** 2 * -logs))


@pytest.mark.parametrize("shape", [(40,), (40, 2)])
def test_a_loss_of_the_users_own_of_numbers(load, shape):
  task = load(np.random.default_rng(5).normal(size=shape), "pinball")
  outputs, y = outputs_and_labels(task)
  names, arrays = {}, {"a": task.train.load(0)}
  exec(LOSSES, names)
  program = tasks.from_client_data(
    arrays, arrays, task.keras_model_fn, loss=names["pinball"]
  )
  for found in (task, program):
    assert_loss(found, mean_pinball_loss(y, outputs, alpha=0.9))


@pytest.mark.parametrize(
  ("function", "problem"), [("broken", "line 9"), ("none", "none")]
)
def test_a_loss_that_is_none_is_refused(load, function, problem):
  with rejected("loss", problem):
    load(loss=function)
