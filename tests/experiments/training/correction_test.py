"""Tests of label correction, which comes before the first round of a run."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import tasks
from tests.experiments.training.small_run import (
  check_same,
  parts_of,
  tables,
  train,
)
from tests.refusals import rejected
from tff_fair.experiments import RunSpec
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.training import (
  client_data,
  client_evaluation,
  correction,
)

SPEC = RunSpec(
  task_options={
    "num_clients": 8,
    "partition": "iid",
    "model": "logistic_regression",
    "label_noise": "symmetric",
  },
  algorithm="fedavg",
  clients_per_round=4,
  client_learning_rate=0.1,
  local_epochs=5,
  total_rounds=1,
  label_correction="fedcorr",
  correction_iterations=2,
  correction_cohort=2,
  correction_finetuning=2,
)
TABLES = ("label_correction", "client_evaluations", "metrics")

pytestmark = pytest.mark.usefixtures("compiled_here", "unpainted")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """Returns an uninterrupted run."""
  return train(SPEC, tmp_path_factory.mktemp("run") / "whole")


def test_labels_are_better_after_and_the_run_begins_with_the_model(
  finished, compiled_here
):
  table = pd.read_csv(finished.path / "label_correction.csv")
  assert len(table) == 8
  assert (table["labels_changed"] > 0).any()
  wrong = (
    table["num_examples"]
    @ table[["wrong_labels_before", "wrong_labels_after"]].to_numpy()
  )
  assert wrong[1] < 0.7 * wrong[0]
  is_noisy = table["noisy"]
  assert (table["noise_level"][~is_noisy] == 0).all()
  assert (table["labels_changed"][~is_noisy] == 0).all()
  parts = parts_of(SPEC, compiled_here)
  parts, weights = correction.correct(
    RunFolder(finished.path), SPEC, parts, print
  )
  state = parts.process.set_model_weights(parts.process.initialize(), weights)
  test_data = client_data.ClientLoader(parts.task.test, parts.task.element_spec)
  evaluate = client_evaluation.build_evaluation(parts, test_data)
  first = finished.client_evaluations.query("round == 0")["loss"]
  np.testing.assert_array_equal(
    first.to_numpy(np.float32), evaluate(state).clients["loss"]
  )


def test_an_interrupted_correction_goes_on_with_the_same_bytes(
  finished, tmp_path, monkeypatch
):
  save, stops = correction.save, [1, 2]

  def save_and_stop(folder, record):
    save(folder, record)
    if stops and record.iterations == stops[0]:
      stops.pop(0)
      raise KeyboardInterrupt

  with monkeypatch.context() as patched:
    patched.setattr(correction, "save", save_and_stop)
    for _ in range(2):
      with pytest.raises(KeyboardInterrupt):
        train(SPEC, tmp_path / "run")
  run = train(SPEC, tmp_path / "run")
  assert tables(run, TABLES) == tables(finished, TABLES)


def test_another_method_begins_with_the_same_labels(
  finished, folder, compiled_here
):
  spec = SPEC.replace(algorithm="term")
  correction.correct(folder, spec, parts_of(spec, compiled_here), print)
  others = RunFolder(finished.path)
  assert folder.label_corrections.read_bytes() == (
    others.label_corrections.read_bytes()
  )
  check_same(correction.load(folder).weights, correction.load(others).weights)


@pytest.mark.parametrize(
  ("changes", "field", "words"),
  [
    ({"correction_cohort": 9}, "correction_cohort", "1 to 8"),
    (
      {"task_options": {"num_clients": 1}, "correction_cohort": 1},
      "label_correction",
      "has one client",
    ),
    (
      {"dp_noise": 1.0, "dp_clip": 1.0, "client_weighting": "uniform"},
      "dp_noise",
      "leave one",
    ),
    ({"attack": "scaling", "attack_strength": -1.0}, "attack", "honest"),
    ({"aggregation": "secure"}, "aggregation", "noise level"),
  ],
)
def test_what_does_not_go_together_is_an_error(changes, field, words):
  clients = {"clients_per_round": None} if "task_options" in changes else {}
  with rejected(field, words):
    parts_of(SPEC.replace(**changes, **clients))


def test_a_task_without_class_labels_is_an_error(monkeypatch):
  load = task_loading.load

  def load_regression(*arguments):
    return dataclasses.replace(load(*arguments), num_classes=None)

  monkeypatch.setattr(task_loading, "load", load_regression)
  with rejected("label_correction"):
    parts_of(SPEC)


def test_workers_that_read_the_data_are_an_error(monkeypatch):
  correction.check_labels_available(SPEC)
  monkeypatch.setattr("tff_fair.runtime.workers_can_build_data", lambda: True)
  with rejected("label_correction", "engine=dask"):
    correction.check_labels_available(SPEC)
  correction.check_labels_available(SPEC.replace(label_correction="none"))


# Tests of the record of a correction.

NAMES = ("a", "=b", "c")
TRUTH = (np.array([0, 1, 2]), np.array([1, 1]), np.array([2]))
NOISY = (np.array([0, 1, 2]), np.array([0, 2]), np.array([2]))


def small_task():
  train = tasks.Split(
    num_examples=np.array([3, 2, 1]),
    load=lambda k: (np.zeros([len(NOISY[k]), 1]), NOISY[k]),
    true_labels=lambda k: TRUTH[k],
  )
  return tasks.Task(
    name="small",
    description="",
    client_names=NAMES,
    train=train,
    test=train,
    element_spec=tasks.task.element_spec([1]),
    num_classes=3,
    keras_model_fn=lambda: None,
    objective=None,
  )


def made_record():
  return correction.CorrectionRecord(
    iterations=2,
    is_done=True,
    weights=[np.array([[0.1, -0.0]], np.float32), np.zeros(0, np.float32)],
    labels={1: np.array([1, 2])},
    dimensions=np.array([4.0, 6.5, np.nan]),
    levels=np.array([0.0, 0.5, 0.0]),
    is_noisy=np.array([False, True, False]),
  )


def test_a_saved_record_comes_back_bit_for_bit(folder):
  assert correction.load(folder) is None
  correction.save(folder, dataclasses.replace(made_record(), iterations=1))
  correction.save(folder, made_record())  # Replaces the earlier one.
  loaded, expected = correction.load(folder), made_record()
  for field in dataclasses.fields(expected):
    assert repr(getattr(loaded, field.name)) == repr(
      {k: np.asarray(y) for k, y in expected.labels.items()}
      if field.name == "labels"
      else getattr(expected, field.name)
    )
  assert loaded.weights[0].tobytes() == expected.weights[0].tobytes()
  assert [p.name for p in folder.path.iterdir()] == ["label_correction.npz"]


@pytest.mark.parametrize("damage", ["cut", "changed", "text", "empty"])
def test_a_damaged_file_is_an_error_that_names_it(folder, damage):
  correction.save(folder, made_record())
  content = folder.label_correction.read_bytes()
  middle = len(content) // 2
  folder.label_correction.write_bytes(
    {
      "cut": content[:middle],
      "changed": content.replace(made_record().levels.tobytes(), b"\1" * 24),
      "text": b"nothing of the kind",
      "empty": b"",
    }[damage]
  )
  with pytest.raises(RunError, match=r"label_correction\.npz"):
    correction.load(folder)


def test_the_table_has_a_row_for_each_client(folder):
  correction.write_table(folder, small_task(), made_record())
  table = pd.read_csv(folder.label_corrections)
  assert table["client"].tolist() == ["a", "'=b", "c"]
  assert table["dimension"].tolist()[:2] == [2.0, 3.25]
  assert np.isnan(table["dimension"][2])
  assert table["noisy"].tolist() == [False, True, False]
  assert table["noise_level"].tolist() == [0, 0.5, 0]
  assert table["labels_changed"].tolist() == [0, 1, 0]
  assert table["wrong_labels_before"].tolist() == [0, 1, 0]
  assert table["wrong_labels_after"].tolist() == [0, 0.5, 0]
