import dataclasses
import json
import types

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
import tensorflow as tf

import tasks
import tff_fair
from tests.experiments.runs import example_configurations
from tests.experiments.training.rounds_test import round_state
from tff_fair.experiments import RunError, RunSpec
from tff_fair.experiments.runs import discovery, tables
from tff_fair.experiments.spec.scores import ACCURACY
from tff_fair.experiments.training import (
  client_evaluation,
  predictions,
  results as run_results,
  round_tables,
  scoring,
)
from tff_fair.experiments.training.early_stopping import BestEvaluationTracker
from tff_fair.experiments.training.round_state import RoundEvaluation

ACCURACIES = [0.1, 0.5, 0.6, 0.8, 1.0]


@pytest.fixture(scope="module")
def task():
  return tasks.load("digits", num_clients=5)


def evaluation(task, accuracies=ACCURACIES, losses=(0.1, 0.2, 0.3, 0.4, 0.5)):
  columns = {
    "client_id": np.arange(task.num_clients),
    "num_examples": task.test.num_examples,
    "loss": np.array(losses, np.float32),
    "accuracy": np.array(accuracies, np.float32),
  }
  return RoundEvaluation(client_evaluation.summarize(columns), columns)


def write_evaluations(folder, *evaluations):
  tables_of = round_tables.TableWriter(folder)
  row = {name: np.full(1, None) for name in tables.COHORTS.required}
  for round_num, evaluation in evaluations:
    clients = {"client_id": np.zeros(1), **row}
    tables_of.write(
      round_state(round_num, clients=clients, evaluation=evaluation)
    )


def write(folder, task, best=None):
  parts = types.SimpleNamespace(
    task=task,
    scores=scoring.resolve(task, RunSpec()),
    best_tracker=best,
    attackers=(),
    dp=None,
    first_rounds=np.ones(task.num_clients, np.int64),
  )
  return run_results.write(folder, RunSpec(), parts, predictions.Results())


def test_a_summary_is_strict_json_where_a_model_diverged(folder, task):
  diverged = evaluation(task, losses=[0.1, 0.2, np.inf, 0.4, 0.5])
  write_evaluations(folder, (1, diverged))
  write(folder, task)

  def refuse(name):
    raise AssertionError(f"{name} is not JSON.")

  summary = json.loads(folder.summary.read_text(), parse_constant=refuse)
  assert summary["test_loss"]["max"] is None
  assert summary["test_accuracy"]["max"] == 1.0
  folder.config.write_text(json.dumps(example_configurations.build(RunSpec())))
  found = discovery.open_run(folder.path).summary
  assert found is not None
  assert np.isnan(found["test_loss"]["max"])
  assert found["test_accuracy"] == summary["test_accuracy"]


def test_results_are_those_of_the_last_evaluation(folder, task):
  evaluations = [(5, evaluation(task, ACCURACIES[::-1])), (9, evaluation(task))]
  write_evaluations(folder, *evaluations)
  best = BestEvaluationTracker("worst_10")
  best.round_num, best.value = 5, 0.1
  write(folder, task, best)

  clients = pd.read_csv(folder.clients, float_precision="round_trip")
  assert clients["client_id"].tolist() == [0, 1, 2, 3, 4]
  assert clients["client"].tolist() == list(task.client_names)
  for part in ("train", "test"):
    numbers = getattr(task, part).num_examples
    assert clients[f"num_{part}_examples"].tolist() == numbers[:5].tolist()
  np.testing.assert_allclose(clients["test_accuracy"], ACCURACIES)
  np.testing.assert_allclose(clients["test_loss"], [0.1, 0.2, 0.3, 0.4, 0.5])

  assert "label_noise" not in clients

  summary = json.loads(folder.summary.read_text())
  assert (summary["rounds"], summary["num_clients"]) == (9, 5)
  assert summary["best"] == {
    "checkpoint": "best_checkpoint/program_state_5",
    "round": 5,
    "criterion": "worst_10",
    "value": 0.1,
  }
  # Nothing gets lost between evaluations and summary.
  last = evaluations[-1][1].summary
  assert summary["test_accuracy"] == last["accuracy"]
  assert summary["test_loss"] == last["loss"]
  assert summary["test_accuracy_weighted"] == last["accuracy_weighted"]
  assert summary["test_accuracy"] == tff_fair.metrics.fairness_summary(
    clients["test_accuracy"]
  )

  # No numbers of correct examples give these accuracies, so their noise is
  # unknown.
  assert "test_accuracy_noise" not in summary
  labels = pd.read_csv(folder.labels)
  assert list(labels) == ["client_id", *map(str, range(10))]
  assert labels["client_id"].tolist() == [0, 1, 2, 3, 4]
  _, y = task.train.load(3)
  assert labels.iloc[3, 1:].tolist() == np.bincount(y, minlength=10).tolist()

  for path in (folder.plot_of(ACCURACY), folder.curves_plot):
    image = matplotlib.image.imread(path)
    assert image.shape[0] > 300
    # Something is drawn in colours.
    assert np.ptp(image[..., :3], axis=2).max() > 0.5
  assert folder.is_finished


def test_clients_have_their_label_noise(folder):
  noise = {"label_noise": "pairwise", "noisy_clients": 0.5}
  task = tasks.load("digits", num_clients=5, **noise)
  write_evaluations(folder, (1, evaluation(task)))
  write(folder, task)
  clients = pd.read_csv(folder.clients, float_precision="round_trip")
  levels = clients["label_noise"].to_numpy()
  np.testing.assert_array_equal(levels, task.train.noise_levels)
  assert 0 < np.count_nonzero(levels) < 5
  counts = clients["num_train_examples"].to_numpy()
  wrong = np.rint(levels * counts) / counts
  np.testing.assert_allclose(clients["wrong_labels"], wrong, rtol=1e-12)


@pytest.mark.parametrize("name", ["evaluations", "client_evaluations"])
def test_a_damaged_table_is_named_and_no_run_is_finished(folder, task, name):
  write_evaluations(folder, (5, evaluation(task)))
  path = getattr(folder, name)
  path.write_text(path.read_text().replace("accuracy", "accurazy"))
  with pytest.raises(RunError, match=rf"{name}\.csv: .*'accuracy"):
    write(folder, task)
  path.unlink()
  with pytest.raises(RunError, match=rf"{name}\.csv"):
    write(folder, task)
  assert not folder.is_finished


@pytest.mark.parametrize(
  "changes",
  [
    {"client_names": range(5001)},
    {"labels": tf.TensorSpec([None, 20], tf.int32)},
    {"labels": tf.TensorSpec([None], tf.float32)},
  ],
)
def test_labels_are_counted_where_an_example_has_one_class(
  folder, task, changes
):
  if labels := changes.pop("labels", None):
    changes["element_spec"] = (task.element_spec[0], labels)
  run_results._write_labels(folder, dataclasses.replace(task, **changes))
  assert not folder.labels.exists()
