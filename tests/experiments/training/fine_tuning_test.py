"""Tests of fine-tuning a run's model at each client, against Keras' loops."""

import dataclasses
import functools
import itertools
import shutil
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from scipy.special import softmax
from sklearn import metrics as sklearn_metrics

from tests.experiments.training.scores_of_runs_test import illness
from tests.experiments.training.small_run import train_on
from tests.refusals import rejected
from tff_fair import client_works, experiments
from tff_fair.client_works import local_baseline, training_settings
from tff_fair.experiments import RunSpec
from tff_fair.experiments.texts import fairness_table
from tff_fair.experiments.training import baselines, predictions
from tff_fair.files import atomic

pytestmark = pytest.mark.usefixtures("compiled_here", "unpainted")

_EPOCHS = 3
_SPEC = RunSpec(
  task="digits",  # Replaced by the task below.
  algorithm="fedavg",
  client_optimizer="momentum",
  client_learning_rate=0.2,
  client_learning_rate_decay=0.5,
  batch_size=8,
  clients_per_round=2,
  total_rounds=2,
  unseen_clients="0.4",
  local_baseline=True,
  finetune_epochs=_EPOCHS,
)


@pytest.fixture(scope="module", autouse=True)
def few_rounds():
  """Ends the training of local baselines early; no test needs good ones."""
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(baselines, "_MOST_ROUNDS", 4)
    yield


@pytest.fixture(scope="module")
def task():
  return illness()


@pytest.fixture(scope="module")
def run(task, tmp_path_factory):
  return train_on(task, _SPEC, tmp_path_factory.mktemp("runs") / "tuned")


def test_a_finished_run_may_be_fine_tuned(task, run):
  path = run.path.with_name("later")
  before = train_on(task, _SPEC.replace(finetune_epochs=None), path)
  assert not (path / "fine_tuning.csv").exists()
  unchanged = [before.path / name for name in ("metrics.csv", "cohorts.csv")]
  texts = [file.read_bytes() for file in unchanged]
  train_on(task, _SPEC, path)
  assert [file.read_bytes() for file in unchanged] == texts
  for name in ("clients.csv", "fine_tuning.csv", "summary.json"):
    assert (path / name).read_bytes() == (run.path / name).read_bytes(), name
  for other in (3, 4):  # Results are not replaced.
    with pytest.raises(experiments.RunError, match="finished run"):
      train_on(task, _SPEC.replace(finetune_epochs=other), path)


class _KilledError(BaseException):
  """Ends a run as a signal does."""


def _kill_from(patched, number):
  """Makes writes and moves of files fail, from the given number on."""
  writes = itertools.count(1)

  def dying(function):
    def call(*args):
      if next(writes) >= number:
        raise _KilledError
      function(*args)

    return call

  for name in ("write", "move"):
    patched.setattr(atomic, name, dying(getattr(atomic, name)))


def _files(path):
  return {p.name: p.read_bytes() for p in path.iterdir() if p.is_file()}


def _events(path):
  return sorted(path.glob("tensorboard/t*/*"))


def _check_readable(path, before, capsys):
  """Checks that a run is finished, and shows its results."""
  capsys.readouterr()
  present, columns = _files(path), ["mean", "worst_10"]
  assert before.keys() - present.keys() <= {"checksums.json"}
  run = experiments.open_run(path)
  assert run.summary is not None
  assert f"{100 * run.summary['test_accuracy']['mean']:.2f}" in (
    experiments.compare(run, columns=columns).to_csv()
  )
  experiments.report(run, path.with_name("page.html"), overwrite=True)
  # The new checksums are written right before the configuration.
  may_differ = present != before and "checksums.json" in present
  assert ("changed since" in capsys.readouterr().err) <= may_differ


@pytest.fixture
def untuned(task, run, tmp_path):
  """Returns the folder of a run without fine-tuning, beside a copy of `run`."""
  shutil.copytree(run.path, tmp_path / "beside")
  spec = _SPEC.replace(finetune_epochs=None)
  return train_on(task, spec, tmp_path / "run").path


def test_a_kill_while_clients_are_tuned_changes_nothing(task, untuned, capsys):
  before, events = _files(untuned), _events(untuned)
  losses = mock.Mock(side_effect=[0.5] * (_EPOCHS + 3) + [_KilledError])
  with pytest.MonkeyPatch.context() as patched:
    patched.setattr(local_baseline.ServerlessTraining, "loss", losses)
    with pytest.raises(_KilledError):
      train_on(task, _SPEC, untuned)
  assert _files(untuned) == before
  assert _events(untuned) == events
  _check_readable(untuned, before, capsys)


@pytest.mark.long
def test_a_kill_at_any_write_leaves_a_finished_run(
  task, run, untuned, monkeypatch, capsys
):
  before, events = _files(untuned), _events(untuned)
  staged = untuned / f"{atomic.STAGING}killed" / "clients.csv"
  staged.parent.mkdir()
  staged.write_text("client_id")
  once = functools.cache(lambda: predictions_of_run(*arguments))
  predictions_of_run, arguments = predictions.results, []

  def results(*args):
    arguments[:] = args
    return once()

  monkeypatch.setattr(predictions, "results", results)
  kills, is_tuned = [], False
  while not is_tuned:
    with pytest.MonkeyPatch.context() as patched:
      _kill_from(patched, len(kills) + 1)
      try:
        train_on(task, _SPEC, untuned)
        is_tuned = True
      except _KilledError:
        kills.append(_files(untuned) != before)
    if is_tuned or kills[-1]:
      _check_readable(untuned, before, capsys)
  # There were kills both before the first move of a file and between moves.
  assert kills.count(False) >= 5
  assert kills.count(True) >= 7
  after, expected = _files(untuned), _files(run.path)
  assert after.keys() == expected.keys()
  for name in ("clients.csv", "fine_tuning.csv", "summary.json", "labels.csv"):
    assert after[name] == expected[name], name
  assert experiments.open_run(untuned, verify=True).spec == _SPEC
  assert "changed since" not in capsys.readouterr().err
  assert not staged.parent.exists()
  assert _events(untuned) == events
  assert len([*untuned.glob("tensorboard/hparams/*")]) == 1


def keras_epochs(model, arrays, client_id, rate, round_num):
  """Yields a model's weights before training and after each epoch."""
  x, y = arrays
  optimizer = tf.keras.optimizers.legacy.SGD(rate, momentum=0.9)
  loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
  model.compile(optimizer, loss)
  yield model.get_weights()
  for epoch in range(_EPOCHS):
    order = training_settings.permutation(
      tf.size(y), _SPEC.seed, *map(tf.constant, (client_id, round_num, epoch))
    ).numpy()
    for first in range(0, len(y), _SPEC.batch_size):
      rows = order[first : first + _SPEC.batch_size]
      model.train_on_batch(x[rows], y[rows])
    yield model.get_weights()


def expected(task, run, client_id):
  """Returns test scores and held-out losses over the epochs, by Keras."""
  (kept, aside) = baselines.split_holdout(
    task.train.load(client_id), (_SPEC.seed, client_id)
  )
  assert aside is not None
  model = task.keras_model_fn()
  model.set_weights(run.weights())
  x, y = task.test.load(client_id)
  scores, losses = [], []
  # 0.05 is a quarter of the rate, as it would be in the third round, t = 2.
  for weights in keras_epochs(model, kept, client_id, 0.05, 2):
    model.set_weights(weights)
    scores.append(np.mean(model(x).numpy().argmax(1) == y))
    p = softmax(model(aside[0]).numpy().astype(np.float64), axis=1)
    losses.append(sklearn_metrics.log_loss(aside[1], p, labels=[0, 1]))
  return scores, losses


def test_epochs_are_those_of_one_round(task):
  model = task.keras_model_fn()
  weights = tff.learning.models.ModelWeights(
    [tf.constant(w) for w in model.get_weights()], []
  )
  settings = client_works.TrainingSettings(
    batch_size=_SPEC.batch_size, local_epochs=7, shuffle_seed=_SPEC.seed
  )
  optimizer = tff.learning.optimizers.build_sgdm(0.2, 0.9)
  training = local_baseline.ServerlessTraining(
    task.model_fn, optimizer, settings
  )
  arrays = task.train.load(1)
  # A single round with all epochs gives the same weights, so `epochs` has the
  # same order of examples, and keeps the momentum between epochs.
  in_one = local_baseline.ServerlessTraining(
    task.model_fn,
    optimizer,
    dataclasses.replace(settings, local_epochs=_EPOCHS),
  ).train(weights, [(baselines.dataset(arrays, 1), None)], 1, 1, lambda: None)
  first = [*training.epochs(weights, baselines.dataset(arrays, 1), _EPOCHS, 0)]
  for one, other in zip(
    in_one.weights.trainable, first[-1].trainable, strict=True
  ):
    np.testing.assert_array_equal(one, other)


def test_clients_have_the_score_of_the_best_epoch(task, run):
  clients = run.clients.set_index("client_id")
  with_epochs = experiments.open_run(run.path).path / "fine_tuning.csv"
  rows = np.genfromtxt(with_epochs, delimiter=",", names=True)
  assert clients["unseen"].sum() == 2
  for client_id in clients.index:
    scores, losses = expected(task, run, client_id)
    of_client = rows[rows["client_id"] == client_id]
    np.testing.assert_array_equal(of_client["epochs"], range(_EPOCHS + 1))
    np.testing.assert_allclose(of_client["accuracy"], scores, atol=1e-6)
    np.testing.assert_allclose(of_client["loss_aside"], losses, atol=1e-6)
    row = clients.loc[client_id]
    best = int(np.argmin(losses))
    assert row["finetuned_epochs"] == best
    assert row["finetuned_accuracy"] == pytest.approx(scores[best])
    assert of_client["accuracy"][0] == pytest.approx(row["test_accuracy"])
    gain = row["finetuned_accuracy"] - row["local_accuracy"]
    assert row["finetuned_gain"] == pytest.approx(gain)
    assert row["finetuned_gain_low"] <= gain <= row["finetuned_gain_high"]


def test_the_summary_and_comparisons_have_fine_tuning(run):
  is_seen = ~run.clients["unseen"]
  seen = run.clients[is_seen]["finetuned_accuracy"]
  found = run.summary["finetuned"]
  assert found["mean"] == pytest.approx(seen.mean())
  assert found["worst_10"] == pytest.approx(seen.min())
  assert found["gaining"] + found["losing"] + found["undecided"] == len(seen)
  assert run.summary["joining"]["finetuned"] == pytest.approx(seen.mean())
  unseen = run.clients[~is_seen]["finetuned_accuracy"]
  assert run.summary["unseen"]["finetuned"] == pytest.approx(unseen.mean())
  columns = ["mean", "finetuned_mean", "finetuned_worst_10"]
  frame = experiments.compare(run, columns=columns)
  assert frame["finetuned_mean"].iloc[0] == pytest.approx(
    100 * seen.mean(), abs=0.01
  )
  text = fairness_table.describe(run.summary)
  assert "fine-tuning" in text.lower()


def test_a_client_without_examples_to_choose_on_keeps_the_model(task, tmp_path):
  few = dataclasses.replace(
    task.train,
    num_examples=np.full(5, 4),
    load=lambda k: tuple(half[:4] for half in task.train.load(k)),
  )
  spec = _SPEC.replace(
    local_baseline=False, unseen_clients=None, total_rounds=1
  )
  found = train_on(dataclasses.replace(task, train=few), spec, tmp_path / "few")
  clients = found.clients
  assert (clients["finetuned_epochs"] == 0).all()
  assert "joining" not in found.summary
  np.testing.assert_allclose(
    clients["finetuned_accuracy"], clients["test_accuracy"], atol=1e-6
  )


def test_labels_that_are_corrected_are_refused():
  with rejected("finetune_epochs"):
    RunSpec(task="digits", label_correction="fedcorr", finetune_epochs=2)
