"""Tests of clients' results after local training, against NumPy."""

import functools

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import reference, small_problem
from tests.cases import one_of_each
from tests.client_works import local_work
from tests.refusals import rejected
from tff_fair import client_dataset, client_works

IDS = small_problem.CLIENT_IDS
ARRAYS = small_problem.client_arrays()
models = pytest.mark.parametrize("model", local_work.MODELS)


def elements(client_id, *sizes):
  """Returns a client's data in elements of `sizes` examples."""
  x, y = ARRAYS[client_id]
  ends = np.cumsum(sizes)
  parts = [
    tf.data.Dataset.from_tensors((x[end - size : end], y[end - size : end]))
    for size, end in zip(sizes, ends, strict=True)
  ]
  return client_dataset(
    client_id, functools.reduce(lambda a, b: a.concatenate(b), parts)
  )


@pytest.mark.parametrize("epochs", one_of_each([3, 1]))
@pytest.mark.parametrize("batch_size", [small_problem.BATCH_SIZE, None])
@models
def test_updates_and_signals_are_those_of_numpy(model, batch_size, epochs):
  process = local_work.build(model, batch_size=batch_size, local_epochs=epochs)
  make = small_problem.whole if batch_size else small_problem.batched
  output = local_work.run(process, [make(k) for k in IDS])
  for client_id, result in zip(IDS, output.result, strict=True):
    wanted = reference.run_client(
      reference.initial_theta(), client_id, epochs=epochs
    )
    np.testing.assert_allclose(
      local_work.flat(result.update), wanted.update, atol=1e-6
    )
    signals = result.update_weight
    assert signals.client_id == client_id
    assert signals.num_examples == len(ARRAYS[client_id][1])
    assert signals.loss == pytest.approx(wanted.loss, rel=1e-6)
    assert signals.accuracy == pytest.approx(wanted.accuracy, rel=1e-6)
    assert signals.learning_rate == np.float32(small_problem.LEARNING_RATE)
    assert signals.effective_steps == pytest.approx(
      epochs * -(-signals.num_examples // 4), rel=1e-5
    )
    assert signals.gradient_norm == signals.initial_loss == 0


def test_types_of_signals():
  process = local_work.build(batch_size=4)
  result = process.next.type_signature.result.result.member
  assert str(result.update_weight) == (
    "<client_id=int64,num_examples=float32,loss=float32,accuracy=float32,"
    "learning_rate=float32,effective_steps=float32,gradient_norm=float32,"
    "initial_loss=float32>"
  )


def test_several_elements_of_several_slices():
  # Elements of 6, 1 and 9 examples give minibatches of 4 + 2, 1 and 4 + 4 + 1.
  x, y = ARRAYS[31]
  batches = [
    batch
    for start, stop in ((0, 6), (6, 7), (7, 16))
    for batch in local_work.batches_of((x[start:stop], y[start:stop]), 4)
  ]
  assert [len(y) for _, y in batches] == [4, 2, 1, 4, 4, 1]
  process = local_work.build(batch_size=4, local_epochs=2)
  update, signals = local_work.run_one(process, elements(31, 6, 1, 9))
  wanted, _ = local_work.train(batches * 2)
  np.testing.assert_allclose(update, wanted, atol=1e-6)
  assert signals.num_examples == 16
  loss, _ = reference.loss_and_gradient(reference.initial_theta(), x, y)
  assert signals.loss == pytest.approx(loss, rel=1e-6)


@models
def test_loss_during_training_is_the_mean_over_examples_seen(model):
  process = local_work.build(
    model, batch_size=4, local_epochs=2, loss_at="training"
  )
  _, signals = local_work.run_one(process, small_problem.whole(3))
  batches = local_work.batches_of(ARRAYS[3], 4) * 2
  _, losses = local_work.train(batches)
  sizes = [len(y) for _, y in batches]
  assert sizes == [4, 4, 4, 1] * 2
  assert signals.loss == pytest.approx(np.average(losses, weights=sizes))
  assert signals.num_examples == 13
  # The accuracy, too, is measured during training: on 26 predictions.
  assert signals.accuracy * 26 == pytest.approx(round(signals.accuracy * 26))


@pytest.mark.parametrize(
  ("optimizer", "in_numpy"),
  [
    (
      tff.learning.optimizers.build_sgdm(0.1, momentum=0.9),
      lambda: reference.Momentum(0.1, 0.9),
    ),
    (
      tff.learning.optimizers.build_adam(0.1),
      lambda: reference.Adam(0.1, epsilon=1e-7, tffs=True),
    ),
  ],
  ids=["momentum", "adam"],
)
@models
def test_client_optimizers_keep_state_within_a_round_only(
  model, optimizer, in_numpy
):
  process = local_work.build(model, optimizer, batch_size=4, local_epochs=2)
  batches = local_work.batches_of(ARRAYS[31], 4) * 2
  wanted, _ = local_work.train(batches, in_numpy())
  output = local_work.run(process, [small_problem.whole(31)])
  again = local_work.run(process, [small_problem.whole(31)], state=output.state)
  for result in (*output.result, *again.result):
    np.testing.assert_allclose(
      local_work.flat(result.update), wanted, atol=2e-5
    )
    assert result.update_weight.learning_rate == np.float32(0.1)


@models
def test_proximal_term_pulls_back(model):
  process = local_work.build(model, batch_size=4, proximal_mu=3.0)
  theta = reference.initial_theta()
  update, signals = local_work.run_one(process, small_problem.whole(31))
  wanted = reference.run_client(theta, 31, mu=3.0)
  np.testing.assert_allclose(update, wanted.update, atol=1e-6)
  free = reference.run_client(theta, 31)
  assert np.linalg.norm(update) < 0.9 * np.linalg.norm(free.update)
  # The reported loss leaves out the proximal term.
  assert signals.loss == pytest.approx(free.loss, rel=1e-6)


@pytest.mark.parametrize("batch_size", [4, None])
def test_gradient_norm_and_initial_loss_are_reported_if_asked(batch_size):
  process = local_work.build(
    signals=("gradient_norm", "initial_loss"), batch_size=batch_size
  )
  current = local_work.initial_weights(local_work.MODELS["functional"])
  initial = tff.learning.models.ModelWeights(
    tuple(w / 2 for w in current.trainable), current.non_trainable
  )
  make = small_problem.whole if batch_size else small_problem.batched
  update, signals = local_work.run_one(
    process, make(31), weights={"current": current, "initial": initial}
  )
  theta = reference.initial_theta()
  wanted = reference.run_client(theta, 31)
  loss, _ = reference.loss_and_gradient(theta / 2, *ARRAYS[31])
  np.testing.assert_allclose(update, wanted.update, atol=1e-6)
  assert signals.loss == pytest.approx(wanted.loss, rel=1e-6)
  assert signals.gradient_norm == pytest.approx(wanted.gradient_norm, rel=1e-5)
  assert signals.initial_loss == pytest.approx(loss, rel=1e-6)


@pytest.mark.parametrize("batch_size", [4, None])
@models
def test_a_client_without_examples_reports_none(model, batch_size):
  process = local_work.build(model, batch_size=batch_size)
  update, signals = local_work.run_one(process, small_problem.whole(3).take(0))
  np.testing.assert_array_equal(update, np.zeros(18))
  assert signals.num_examples == signals.loss == signals.accuracy == 0


@pytest.mark.parametrize("batch_size", [4, None])
def test_elements_without_examples_do_not_matter(batch_size):
  process = local_work.build(batch_size=batch_size)
  _, signals = local_work.run_one(process, elements(31, 0, 0))
  assert signals.num_examples == 0


def test_an_empty_element_between_others_does_not_spoil_them():
  # An empty element has no minibatch, whose mean would be NaN.
  process = local_work.build(batch_size=4)
  update, signals = local_work.run_one(process, elements(31, 8, 0, 8))
  wanted, _ = local_work.train(local_work.batches_of(ARRAYS[31], 4))
  np.testing.assert_allclose(update, wanted, atol=1e-6)
  assert signals.num_examples == 16


@models
def test_a_client_that_diverges_reports_no_examples(model):
  process = local_work.build(model, batch_size=4)
  state = local_work.learning_rate(process, np.inf)
  output = local_work.run(process, small_problem.cohort((31, 12)), state=state)
  for result in output.result:
    assert not np.all(np.isfinite(local_work.flat(result.update)))
    assert result.update_weight.num_examples == 0
    assert np.isfinite(result.update_weight.loss)
  # The mean over no clients is NaN: 0 would look like a perfect model.
  for metric in tf.nest.flatten(output.measurements["train"]):
    assert np.isnan(metric) if metric.dtype.kind == "f" else metric == 0
  assert output.state["round_num"] == 0


def test_hyperparameters_are_those_of_the_optimizer():
  process = local_work.build(batch_size=4)
  state = local_work.learning_rate(process, 0.0)
  output = local_work.run(process, [small_problem.whole(31)], state=state)
  np.testing.assert_array_equal(
    local_work.flat(output.result[0].update), np.zeros(18)
  )
  assert output.result[0].update_weight.learning_rate == 0
  assert process.get_hparams(output.state) == process.get_hparams(state)
  assert output.state["round_num"] == 1


@pytest.mark.parametrize(
  ("optimizer", "model_fn", "message"),
  [
    (tf.keras.optimizers.SGD(0.1), small_problem.keras_model, "client_optimiz"),
    (None, small_problem.keras_model, "tff.learning.optimizers.Optimizer"),
    (small_problem.optimizer(), None, "`model_fn` to be a function.*NoneType"),
    (small_problem.optimizer(), lambda: 3, "`model_fn` to return.*found int"),
    (
      small_problem.optimizer(),
      lambda: tf.keras.Sequential([tf.keras.layers.Dense(1)]),
      "found Sequential.*from_keras_model",
    ),
  ],
)
def test_wrong_arguments_are_named(optimizer, model_fn, message):
  with pytest.raises(TypeError, match=message):
    client_works.build_training(
      model_fn, optimizer, client_works.TrainingSettings()
    )


def test_an_unknown_signal_is_named():
  with rejected("signals", "gradient_norm", value="gradient_norms"):
    local_work.build(signals=("loss", "gradient_norms"))


@pytest.mark.parametrize(
  ("settings", "error"),
  [
    ({"batch_size": 0}, ValueError),
    ({"batch_size": 2.0}, TypeError),
    ({"local_epochs": 0}, ValueError),
    ({"local_epochs": (0, 2)}, ValueError),
    ({"local_epochs": (3, 2)}, ValueError),
    ({"local_epochs": (2,)}, ValueError),
    ({"local_epochs": None}, TypeError),
    ({"local_epochs": (1, 2.5)}, TypeError),
    ({"local_epochs_seed": -1}, ValueError),
    ({"local_steps": 0}, ValueError),
    ({"local_steps": (3, 2)}, ValueError),
    ({"local_steps": 5, "local_epochs": 2}, ValueError),
    ({"local_steps": None, "takes_snapshot": True}, ValueError),
    ({"local_steps": (2, 3), "takes_snapshot": True}, ValueError),
    ({"loss_at": "end"}, ValueError),
    ({"proximal_mu": -1}, ValueError),
    ({"proximal_mu": "1"}, TypeError),
    ({"shuffle_seed": -1}, ValueError),
    ({"shuffle_seed": 0.5}, TypeError),
    ({"shuffle_seed": 1, "batch_size": None}, ValueError),
  ],
  ids=str,
)
def test_wrong_settings_are_named(settings, error):
  name = next(iter(settings))
  with pytest.raises(error, match=rf"^{name}|{name} to be a"):
    client_works.TrainingSettings(**{"batch_size": 1, **settings})
