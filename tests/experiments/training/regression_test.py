"""Tests of runs that predict numbers, on diabetes patients grouped by age."""

import functools
import json
import math

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from sklearn import datasets

import tasks
import tff_fair
from tasks import models
from tests.experiments.training.small_run import train_on
from tff_fair import experiments
from tff_fair.experiments import RunSpec
from tff_fair.experiments.texts import fairness_table

pytestmark = pytest.mark.usefixtures("compiled_here", "unpainted")

_SPEC = RunSpec(
  task="digits",  # Replaced by the task below.
  algorithm="ditto",
  hparams={"lam": 0.5},
  client_learning_rate=0.05,
  clients_per_round=5,
  total_rounds=2,
  rounds_per_evaluation=1,
  criterion="worst_10",
  measures="mae",
)
_NUM_CLIENTS = 6


def _split(arrays):
  return tasks.Split(
    num_examples=np.array([len(y) for _, y in arrays]), load=arrays.__getitem__
  )


def absolute(labels, outputs):
  """A user's own loss, from which no score is computed."""
  return tf.abs(labels - outputs)


def diabetes():
  """Returns a task of 442 patients, with a client for each of five age groups.

  A sixth client trains as the first one does; its test labels are all equal.
  """
  x, y = datasets.load_diabetes(return_X_y=True)
  x, y = (20 * x).astype(np.float32), y.astype(np.float64)
  scale, center = float(y.std()), float(y.mean())
  y = ((y - center) / scale).astype(np.float32)
  group = np.searchsorted(np.quantile(x[:, 0], [0.2, 0.4, 0.6, 0.8]), x[:, 0])
  clients = [np.flatnonzero(group == k) for k in range(5)]
  train = [(x[ids[::2]], y[ids[::2]]) for ids in clients]
  test = [(x[ids[1::2]], y[ids[1::2]]) for ids in clients]
  train.append(train[0])
  test.append((test[0][0][:3], np.full(3, test[0][1][0])))
  return tasks.Task(
    name="diabetes",
    description="442 patients over 6 clients by age",
    client_names=[f"age {k}" for k in range(_NUM_CLIENTS)],
    train=_split(train),
    test=_split(test),
    element_spec=tasks.task.element_spec([10], y_dtype="float32"),
    num_classes=None,
    keras_model_fn=functools.partial(models.mlp, (10,), (), 1, 0),
    objective=models.number_objective(absolute),
    label_scale=scale,
  )


@pytest.fixture(scope="module")
def task():
  return diabetes()


@pytest.fixture(scope="module")
def run(task, tmp_path_factory):
  return train_on(task, _SPEC, tmp_path_factory.mktemp("runs") / "ditto")


def expected(task, weights):
  """Returns RMSE and R² of a linear regression, in the label's own units."""
  kernel, bias = (np.asarray(w, np.float64) for w in weights)
  found = []
  for k in range(task.num_clients):
    x, y = task.test.load(k)
    labels = task.label_scale * np.float64(y)
    outputs = task.label_scale * (np.float64(x) @ kernel[:, 0] + bias)
    squares = np.square(labels - outputs).sum()
    total = np.square(labels - labels.mean()).sum()
    r2 = 1 - squares / total if np.ptp(labels) else math.nan
    mae = np.abs(labels - outputs).mean()
    found.append((math.sqrt(squares / len(y)), r2, mae))
  return np.array(found).T


def test_the_tables_have_errors_in_units_of_the_label(run, task):
  rows = run.client_evaluations
  assert list(rows) == [
    *("round", "client_id", "num_examples", "loss", "rmse", "r2", "mae"),
    *("global_loss", "global_rmse", "global_r2", "global_mae"),
  ]
  last = rows[rows["round"] == 2]
  rmse, r2, mae = expected(task, run.weights())
  np.testing.assert_allclose(last["global_rmse"], rmse, rtol=1e-5)
  np.testing.assert_allclose(last["global_r2"], r2, rtol=1e-4, atol=1e-6)
  np.testing.assert_allclose(last["global_mae"], mae, rtol=1e-5)
  # A cell is empty if all labels are equal; no cell is `nan`.
  text = (run.path / "client_evaluations.csv").read_text()
  assert "nan" not in text.lower()
  assert last["r2"].isna().tolist() == [False] * 5 + [True]
  # Each personal model trains only on its own client.
  assert (last["rmse"] != last["global_rmse"]).all()


def test_the_summary_has_statistics_of_errors(run):
  summary = json.loads((run.path / "summary.json").read_text())
  clients = pd.read_csv(run.path / "clients.csv")
  statistics = tff_fair.metrics.error_summary(clients["test_rmse"])
  assert summary["test_rmse"] == pytest.approx(statistics, rel=1e-9)
  assert summary["test_rmse"]["worst_10"] == clients["test_rmse"].max()
  r2 = clients["test_r2"].dropna()
  assert summary["test_r2"]["mean"] == pytest.approx(r2.mean())
  assert summary["test_r2"]["percentile_50"] == pytest.approx(r2.median())
  assert summary["test_rmse_weighted"] == pytest.approx(
    np.average(clients["test_rmse"], weights=clients["num_test_examples"])
  )
  assert not any("accuracy" in name for name in summary)
  # The best state has the smallest worst error.
  found = run.evaluations.set_index("round")["rmse/worst_10"]
  assert summary["best"]["value"] == found[found.index > 0].min()
  assert found.iloc[-1] < found.iloc[0]


def test_plots_and_events_are_about_errors(run):
  names = {path.name for path in run.path.iterdir()}
  assert "rmse_distribution.png" in names
  assert not any("accuracy" in name for name in names)
  assert "labels.csv" not in names
  tags = {
    value.tag
    for file in (run.path / "tensorboard").rglob("events*")
    for event in tf.compat.v1.train.summary_iterator(str(file))
    for value in event.summary.value
  }
  assert {"rmse/mean", "r2/mean", "final/worst_10", "clients/r2"} <= tags
  assert not any("accuracy" in tag for tag in tags)


def test_the_run_is_told_compared_and_reported(run, tmp_path):
  assert run.score.name == "rmse"
  text = fairness_table.describe(run.summary)
  assert text.startswith("Test RMSE over 6 clients after 2 rounds, in units of")
  assert "R²: mean" in text
  frame = experiments.compare(run, columns=["mean", "r2"]).iloc[0]
  summary = run.summary
  assert frame["mean"] == pytest.approx(summary["test_rmse"]["mean"], 1e-3)
  assert frame["r2"] == pytest.approx(summary["test_r2"]["mean"], abs=1e-4)
  experiments.report(run, tmp_path / "page.html")
  assert "accura" not in (tmp_path / "page.html").read_text().lower()


def test_a_run_that_diverges_has_infinite_errors(task, tmp_path, capfd):
  spec = _SPEC.replace(
    algorithm="fedavg",
    hparams={},
    # Weights stay finite, but errors become infinite.
    client_learning_rate=1e25,
    batch_size=100,
    local_epochs=1,
    total_rounds=1,
  )
  run = train_on(task, spec, tmp_path / "run", progress=True)
  last = run.evaluations.iloc[-1]
  assert last["rmse/mean"] == last["rmse/worst_10"] == math.inf
  assert math.isnan(last["rmse/std"])
  assert last["r2/min"] == -math.inf
  assert run.summary is not None
  assert "best" not in run.summary
  assert "RMSE inf, std nan, worst 10% inf" in capfd.readouterr().err
  frame = experiments.compare(run)
  assert frame["mean"].tolist() == [math.inf]


def test_both_forms_of_the_model_have_no_accuracy(task):
  data = [tff_fair.client_dataset(0, task.test_data(0))]
  weights = tff.learning.models.ModelWeights(
    [np.zeros([10, 1], np.float32), np.zeros(1, np.float32)], []
  )
  loss = np.mean(np.abs(task.test.load(0)[1], dtype=np.float64))
  for model in (task.model_fn, task.functional_model_fn()):
    evaluate = tff_fair.evaluation.build_client_evaluation(model)
    rows = evaluate(weights, data)
    assert np.isnan(rows["accuracy"]).all()
    assert rows["loss"] == pytest.approx([loss])
