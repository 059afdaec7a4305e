"""The loss and the metric of models, in both of TFF's forms."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from scipy.special import log_softmax
from sklearn.metrics import mean_pinball_loss

import tasks
import tff_fair
from tasks import models, task
from tests.cases import one_of_each
from tests.refusals import rejected
from tff_fair.client_works import local_model, tally as tallies
from tff_fair.declared import FieldError


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
  clients = [tff_fair.client_dataset(k, task.train_data(k)) for k in (0, 1)]
  outputs = []
  for model in (task.model, task.model_fn):
    process = tff_fair.algorithms.build_fedavg(
      model,
      client_optimizer=tff.learning.optimizers.build_sgdm(0.1),
      batch_size=7,
    )
    outputs.append(process.next(process.initialize(), clients))
  for ours, theirs in zip(
    *(output.state.global_model_weights.trainable for output in outputs),
    strict=True,
  ):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
  metrics, wanted = (
    output.metrics["client_work"]["train"] for output in outputs
  )
  assert list(metrics) == list(wanted)
  for column, value in wanted.items():
    assert metrics[column].dtype == value.dtype
    np.testing.assert_allclose(metrics[column], value, rtol=1e-5)


def loss_and_gradients(model_fn, weights, batch):
  """Returns what a client computes on a batch, in TFF's worker."""

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


def agreeing_forms(objective, build, spec, batch):
  """Returns both forms, which have equal losses and gradients on a batch."""
  forms = (
    objective.model_fn(build, spec),
    objective.functional_model_fn(build, spec)(),
  )
  weights = [2 * w.numpy() for w in build().trainable_weights]
  expected, found = (loss_and_gradients(f, weights, batch) for f in forms)
  for ours, theirs in zip(found, expected, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)
  return forms


@pytest.mark.parametrize("hidden_units", one_of_each([[6, 5], []]))
def test_double_softmax_stays_double(hidden_units):
  agreeing_forms(
    models.class_objective(),
    lambda: models.mlp_double_softmax((4,), hidden_units, 3, 0),
    task.element_spec([4]),
    (np.eye(4, dtype=np.float32), np.array([0, 1, 2, 0], np.int32)),
  )


@pytest.mark.parametrize("model", ["cnn", "cnn_dropout"])
def test_models_with_convolutions_stay_in_keras(model):
  task = tasks.load("emnist_character", synthetic=True, model=model)
  assert task.functional_model_fn() is None
  assert task.model is task.model_fn


def test_bag_of_words_trains_as_in_keras():
  batch = (
    np.int32([[1, 2], [3, 0], [4, 5], [6, 6]]),
    np.float32([[1, 0, 1] + 4 * [0], [0, 1] + 5 * [0], 7 * [0], 7 * [1]]),
  )
  keras, functional = agreeing_forms(
    models.multi_label_objective(),
    lambda: models.bag_of_words_regression(6, 7, 0),
    task.element_spec([2], "int32", y_shape=[7], y_dtype="float32"),
    batch,
  )
  model = keras()
  output = model.forward_pass(batch, training=False)
  wanted = model.report_local_unfinalized_metrics()
  state = functional.update_metrics_state(
    functional.initialize_metrics_state(), batch[1], output
  )
  assert list(state) == list(wanted)
  np.testing.assert_allclose(
    state["recall_at_5_accuracy"], wanted["recall_at_5_accuracy"]
  )
  assert 5 <= wanted["recall_at_5_accuracy"][0] < 10


_X = np.array([[1.0, 2.0], [3.0, -4.0], [0.0, 5.0]], np.float32)
_Y = np.array([1.5, -2.0, 1e4], np.float32)
_SPEC = task.element_spec([2], y_dtype="float32")
_build = functools.partial(models.mlp, (2,), (), 1, 0)
_OBJECTIVE = models.number_objective()


def _forms() -> dict[str, local_model.ModelFn]:
  functional = _OBJECTIVE.functional_model_fn(_build, _SPEC)()
  assert isinstance(functional, tff.learning.models.FunctionalModel)
  return {"keras": _OBJECTIVE.model_fn(_build, _SPEC), "functional": functional}


@pytest.mark.parametrize("form", ["keras", "functional"])
def test_loss_and_gradient_are_those_of_the_mean_squared_error(
  form: str,
) -> None:
  kernel, bias = np.array([[2.0], [-1.0]]), np.array([0.5])
  loss, of_kernel, of_bias = loss_and_gradients(
    _forms()[form], [kernel, bias], (_X, _Y)
  )
  errors = _X.astype(np.float64) @ kernel[:, 0] + bias - _Y
  np.testing.assert_allclose(loss, np.mean(errors**2), rtol=1e-6)
  np.testing.assert_allclose(of_kernel[:, 0], 2 * _X.T @ errors / 3, rtol=1e-5)
  np.testing.assert_allclose(of_bias, [2 * errors.mean()], rtol=1e-5)


def test_both_forms_have_the_same_metrics() -> None:
  keras = _OBJECTIVE.model_fn(_build, _SPEC)()
  functional = _OBJECTIVE.functional_model_fn(_build, _SPEC)()
  assert functional is not None
  assert list(keras.metric_finalizers()) == list(
    functional.initialize_metrics_state()
  )
  outputs = []
  for places in ([0, 1], [2]):  # Batches of unequal sizes.
    output = keras.forward_pass((_X[places], _Y[places]), training=False)
    outputs += output.predictions[:, 0].numpy().tolist()
  metrics = keras.report_local_unfinalized_metrics()
  total, count = metrics["mean_absolute_error"]
  np.testing.assert_allclose(total, np.abs(outputs - _Y).sum(), rtol=1e-6)
  assert count == 3


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
  value = expected(task, weights)
  assert losses_of_forms(task) == pytest.approx([value] * 2, rel=1e-5)


@pytest.mark.parametrize(
  "text", ["1,2,3", "1", "0,1", "a,b", "1,inf", "", "balance"]
)
def test_weights_that_do_not_fit(path, text):
  with rejected("class_weights"):
    load(path, text)


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
def own(tmp_path):
  generator = np.random.default_rng(4)
  (tmp_path / "losses.py").write_text(LOSSES)

  def load(function, y=None):
    np.savez(
      tmp_path / "own.npz",
      x=generator.normal(0, 1, [40, 3]).astype(np.float32),
      y=np.arange(40) % 2 if y is None else y,
      client=np.arange(40) // 20,
    )
    loss = f"{tmp_path / 'losses.py'}:{function}"
    return tasks.load("arrays", file=str(tmp_path / "own.npz"), loss=loss)

  return load


def test_a_loss_of_the_users_own(own):
  task = own("focal")
  x, y = task.train.load(0)
  kernel, bias = (w.numpy() for w in task.keras_model_fn().weights)
  logs = log_softmax(np.float64(x) @ kernel + bias, axis=1)[range(len(y)), y]
  focal = np.mean((1 - np.exp(logs)) ** 2 * -logs)
  assert losses_of_forms(task) == pytest.approx([focal] * 2, rel=1e-5)


@pytest.mark.parametrize("shape", [(40,), (40, 2)])
def test_a_loss_of_the_users_own_of_numbers(own, shape):
  task = own("pinball", np.random.default_rng(5).normal(size=shape))
  x, y = task.train.load(0)
  kernel, bias = (w.numpy() for w in task.keras_model_fn().weights)
  outputs = np.float64(x) @ kernel + bias
  expected = mean_pinball_loss(y, outputs, alpha=0.9)
  names, arrays = {}, {"a": (x, y)}
  exec(LOSSES, names)
  program = tasks.from_client_data(
    arrays, arrays, task.keras_model_fn, loss=names["pinball"]
  )
  for found in (task, program):
    assert losses_of_forms(found) == pytest.approx([expected] * 2, rel=1e-5)


def losses_of_forms(task):
  """Returns the loss of the Keras model, and of the functional one."""
  x, y = task.train.load(0)
  functional = task.functional_model_fn()
  # A Keras model of this form runs in graphs alone.
  with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    outputs = functional.predict_on_batch(
      functional.initial_weights, tf.constant(x)
    )
    found = session.run(functional.loss(outputs, tf.constant(y)))
  batch = (tf.constant(x), tf.constant(y))
  return [loss(task.model_fn(), batch), found]


@pytest.mark.parametrize(
  ("function", "problem"), [("broken", "line 9"), ("none", "none")]
)
def test_a_loss_that_is_none_is_refused(own, function, problem):
  with pytest.raises(FieldError, match=problem) as error:
    own(function)
  assert error.value.field == "loss"
