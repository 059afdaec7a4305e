"""Tests of runs that set validation data aside."""

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tasks
from tests.experiments.training import small_run
from tests.refusals import rejected
from tff_fair.experiments.runs import tables
from tff_fair.experiments.training import client_data, client_evaluation

pytestmark = pytest.mark.usefixtures("compiled_once", "unpainted")

SPEC = small_run.SMALL.replace(
  validation_fraction=0.25,
  criterion="worst_10",
  total_rounds=4,
  rounds_per_evaluation=1,
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  return small_run.train(SPEC, tmp_path_factory.mktemp("runs") / "run")


def load(spec=SPEC):
  task = tasks.load(spec.task, seed=spec.seed, **spec.task_options)
  return tasks.with_validation(task, spec.validation_fraction, spec.seed)


def test_the_results_are_those_of_the_model_on_the_rows_set_aside(finished):
  task, model = load(), finished.model()
  last = finished.last_evaluation.set_index("client_id")
  for client_id in range(task.num_clients):
    for split, prefix in ((task.test, ""), (task.validation, "validation_")):
      x, y = split.load(client_id)
      logits = np.asarray(model(x), np.float64)
      row = last.loc[client_id]
      assert row[f"{prefix}num_examples"] == len(y)
      assert row[f"{prefix}accuracy"] == pytest.approx(
        np.mean(logits.argmax(axis=1) == y)
      )
      losses = np.log(np.exp(logits).sum(axis=1)) - logits[range(len(y)), y]
      assert row[f"{prefix}loss"] == pytest.approx(losses.mean(), rel=1e-4)


def test_a_criterion_sets_data_aside_and_never_chooses_on_test_data():
  spec = SPEC.replace(validation_fraction=None, patience=2)
  assert spec.validation_share == 0.1
  assert spec.replace(criterion=None, patience=None).validation_share == 0
  assert spec.effective()["validation_fraction"] == 0.1
  assert small_run.parts_of(spec).task.validation is not None
  with rejected("validation_fraction"):
    spec.replace(validation_fraction=0)


def test_the_run_trains_on_the_other_rows_and_says_how_many(finished):
  task = load()
  clients = pd.read_csv(finished.path / "clients.csv")
  numbers = task.train.num_examples
  assert clients["num_train_examples"].tolist() == numbers.tolist()
  whole = tasks.load(SPEC.task, seed=0, **SPEC.task_options).train.num_examples
  aside = whole.sum() - numbers.sum()
  assert f"{aside:,} of the train" in finished.config["data"]["description"]
  labels = pd.read_csv(finished.path / "labels.csv").set_index("client_id")
  assert labels.to_numpy().sum() == numbers.sum()


def test_the_criterion_is_measured_on_validation_data(finished):
  evaluations = finished.evaluations.set_index("round")
  on_validation = evaluations["validation/accuracy/worst_10"].drop(0)
  best = finished.summary["best"]
  assert best["value"] == pytest.approx(on_validation.max())
  assert best["round"] == on_validation.idxmax()
  # The table of clients has the same value.
  clients = finished.client_evaluations
  of_best = clients[clients["round"] == best["round"]]
  worst = tables.validation_rows(of_best)["accuracy"].min()
  assert best["value"] == pytest.approx(worst)


@pytest.mark.long
def test_an_interrupted_run_ends_like_one_that_was_not(finished, tmp_path):
  small_run.interrupt(SPEC, tmp_path / "run", after=2)
  again = small_run.train(SPEC, tmp_path / "run")
  assert small_run.tables(again) == small_run.tables(finished)
  assert again.summary["best"] == finished.summary["best"]


def test_other_test_rows_change_no_choice(finished, tmp_path):
  task = load()

  def other(client_id):
    x, y = task.test.load(client_id)
    return x, (y + 1) % 10

  test = tasks.Split(num_examples=task.test.num_examples, load=other)
  changed = small_run.train_on(
    dataclasses.replace(task, test=test), SPEC, tmp_path / "run"
  )
  columns = [n for n in finished.evaluations if n.startswith("validation/")]
  pd.testing.assert_frame_equal(
    changed.evaluations[columns], finished.evaluations[columns]
  )
  assert changed.summary["best"] == finished.summary["best"]
  assert changed.summary["test_loss"] != finished.summary["test_loss"]


def test_personal_models_and_the_score_of_some_clients(tmp_path):
  spec = SPEC.replace(
    task_options={"num_clients": 6},
    algorithm="ditto",
    criterion="mean",
    total_rounds=1,
    unseen_clients="0.34",
  )
  run = small_run.train(spec, tmp_path / "run")
  last = run.last_evaluation
  seen = tables.drop_unseen(last)
  assert len(seen) == 4
  mean = tables.validation_rows(seen)["accuracy"].mean()
  column = run.evaluations["validation/accuracy/mean"]
  assert column.iloc[-1] == pytest.approx(mean)
  assert last["validation_num_examples"].notna().all()


def test_numbers_as_labels(tmp_path):
  rng = np.random.default_rng(0)
  x = rng.normal(size=(90, 2))
  table = pd.DataFrame(x, columns=["a", "b"])
  table["y"] = 7 * (x @ [1, 2])
  table["who"] = np.repeat(["p", "q", "r"], [2, 40, 48])
  table.to_csv(tmp_path / "data.csv", index=False)
  options = {"file": str(tmp_path / "data.csv"), "client": "who", "label": "y"}
  spec = SPEC.replace(
    task="table",
    task_options=options,
    criterion="mean",
    clients_per_round=2,
    total_rounds=1,
  )
  parts = small_run.parts_of(spec)
  test, validation = (
    client_data.ClientLoader(half, parts.task.element_spec)
    for half in (parts.task.test, parts.task.validation)
  )
  state = parts.prepare_initial_state(parts.process.initialize())
  found = client_evaluation.build_evaluation(parts, test, validation)(state)
  first, *others = found.clients["validation_rmse"]
  assert first is None
  assert min(others) > 0
  summary: dict[str, Any] = dict(found.summary)
  mean = summary["validation"]["rmse"]["mean"]
  assert mean == pytest.approx(np.mean(others))


def test_a_share_that_nobody_can_set_aside_is_refused():
  spec = SPEC.replace(validation_fraction=0.001)
  with rejected("validation_fraction"):
    small_run.train(spec)
