"""Weights of classes in the loss of a task's own rows."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax

import tasks
from tasks import models
from tff_fair.declared import FieldError


@pytest.fixture(scope="module")
def path(tmp_path_factory):
  """Forty examples of two clients, of classes 0, 0, 0 and 1."""
  generator = np.random.default_rng(0)
  path = tmp_path_factory.mktemp("arrays") / "rows.npz"
  np.savez(
    path,
    x=generator.normal(size=[40, 3]),
    y=np.tile([0, 0, 0, 1], 10),
    client=np.repeat(["a", "b"], 20),
    split=np.tile(["train"] * 16 + ["test"] * 4, 2),
  )
  return path


def load(path, weights):
  return tasks.load("arrays", file=str(path), class_weights=weights)


def expected(task, weights):
  x, y = task.train.load(0)
  kernel, bias = (w.numpy() for w in task.keras_model_fn().weights)
  logs = log_softmax(np.float64(x) @ kernel + bias, axis=1)
  losses = -logs[np.arange(len(y)), y] * np.array(weights)[y]
  return losses.mean()


def loss(model, batch):
  return model.forward_pass(batch, training=True).loss.numpy()


@pytest.mark.parametrize(
  ("text", "weights"),
  [(None, (1, 1)), ("1,10", (1, 10)), ("balanced", (2 / 3, 2))],
)
def test_the_loss_weighs_classes(path, text, weights):
  task = load(path, text)
  x, y = task.train.load(0)
  value = loss(task.model_fn(), (tf.constant(x), tf.constant(y)))
  assert value == pytest.approx(expected(task, weights), rel=1e-5)
  functional = task.functional_model_fn()
  # A Keras model of this form runs in graphs alone.
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    weights = functional.initial_weights
    outputs = functional.predict_on_batch(weights, tf.constant(x))
    found = session.run(functional.loss(outputs, tf.constant(y)))
  assert found == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(
  "text", ["1,2,3", "1", "0,1", "a,b", "1,inf", "", "balance"]
)
def test_weights_that_do_not_fit(path, text):
  with pytest.raises(FieldError) as error:
    load(path, text)
  assert error.value.field == "class_weights"


def test_clients_of_a_program_have_weights_of_classes():
  generator = np.random.default_rng(0)
  arrays = {
    k: (generator.normal(size=[8, 3]), np.tile([0, 1], 4)) for k in "ab"
  }

  def load(weights):
    return tasks.from_client_data(
      arrays, arrays, lambda: models.mlp((3,), (), 2, 0), class_weights=weights
    )

  task = load([1.0, 5.0])
  x, y = task.train.load(0)
  value = loss(task.model_fn(), (tf.constant(x), tf.constant(y)))
  assert value == pytest.approx(expected(task, (1, 5)), rel=1e-5)
  with pytest.raises(tasks.DataError, match="class_weights"):
    load([1.0])


FOCAL = """
import tensorflow as tf

def focal(labels, logits):
  loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
  return (1 - tf.exp(-loss)) ** 2 * loss

def mean(labels, logits):
  return tf.reduce_mean(focal(labels, logits))

def broken(labels, logits):
  return logits[7]
"""


@pytest.fixture
def own(tmp_path):
  generator = np.random.default_rng(4)
  np.savez(
    tmp_path / "own.npz",
    x=generator.normal(0, 1, [40, 3]).astype(np.float32),
    y=np.arange(40) % 2,
    client=np.arange(40) // 20,
  )
  (tmp_path / "losses.py").write_text(FOCAL)

  def load(function):
    loss = f"{tmp_path / 'losses.py'}:{function}"
    return tasks.load("arrays", file=str(tmp_path / "own.npz"), loss=loss)

  return load


def test_a_loss_of_the_users_own(own):
  task = own("focal")
  x, y = task.train.load(0)
  kernel, bias = (w.numpy() for w in task.keras_model_fn().weights)
  logs = log_softmax(np.float64(x) @ kernel + bias, axis=1)[range(len(y)), y]
  focal = np.mean((1 - np.exp(logs)) ** 2 * -logs)
  batch = (tf.constant(x), tf.constant(y))
  assert loss(task.model_fn(), batch) == pytest.approx(focal, rel=1e-5)
  functional = task.functional_model_fn()
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    outputs = functional.predict_on_batch(
      functional.initial_weights, tf.constant(x)
    )
    found = session.run(functional.loss(outputs, tf.constant(y)))
  assert found == pytest.approx(focal, rel=1e-5)


@pytest.mark.parametrize(
  ("function", "problem"),
  [
    ("mean", "expected float32.3."),
    ("broken", "line 12 raises"),
    ("none", "none"),
  ],
)
def test_a_loss_that_is_none_is_refused(own, function, problem):
  with pytest.raises(FieldError, match=problem) as error:
    own(function)
  assert error.value.field == "loss"
