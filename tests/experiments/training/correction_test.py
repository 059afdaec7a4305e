"""Tests of the stages before the first round of a run."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from tests.experiments import assembled
from tff_fair import experiments
from tff_fair.experiments import FieldError, RunSpec
from tff_fair.experiments.runs import array_files
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.training import (
  client_evaluation,
  correction,
  task_loading,
)
from tff_fair.experiments.training import correction_record as records
from tff_fair.runtime import compilation_cache

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
TABLES = ("label_correction.csv", "client_evaluations.csv", "metrics.csv")

pytestmark = pytest.mark.usefixtures("compiled_once", "unpainted")


def tables(run):
  return [(run.path / name).read_bytes() for name in TABLES]


@pytest.fixture(scope="module")
def finished(tmp_path_factory, shared_caches):
  """A run from its beginning to its end."""
  with pytest.MonkeyPatch.context() as patched:
    for name, value in shared_caches.items():
      patched.setenv(name, value)
    return experiments.run(
      SPEC, tmp_path_factory.mktemp("run") / "whole", progress=False
    )


def test_labels_are_better_after_and_the_run_begins_with_the_model(finished):
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
  parts = assembled.parts_of(SPEC, compilation_cache.of_user())
  parts, weights = correction.correct(
    RunFolder(finished.path), SPEC, parts, print
  )
  state = parts.process.set_model_weights(parts.process.initialize(), weights)
  evaluate = client_evaluation.build_evaluation(
    parts.task, parts.process, cache=parts.cache
  )
  first = finished.client_evaluations.query("round == 0")["loss"]
  np.testing.assert_array_equal(
    first.to_numpy(np.float32), evaluate(state).clients["loss"]
  )


@pytest.mark.parametrize("saved", [1, 2])
def test_an_interrupted_correction_goes_on_with_the_same_bytes(
  finished, tmp_path, monkeypatch, saved
):
  save, times = records.save, []

  def save_and_stop(folder, record):
    save(folder, record)
    times.append(record)
    if len(times) == saved:
      raise KeyboardInterrupt

  with monkeypatch.context() as patched:
    patched.setattr(records, "save", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
      experiments.run(SPEC, tmp_path / "run", progress=False)
  assert times[-1].iterations == saved
  run = experiments.run(SPEC, tmp_path / "run", progress=False)
  assert tables(run) == tables(finished)


def test_another_method_begins_with_the_same_labels(finished, tmp_path):
  run = experiments.run(
    SPEC.replace(algorithm="term"), tmp_path / "run", progress=False
  )
  assert tables(run)[0] == tables(finished)[0]
  firsts = [
    r.client_evaluations.query("round == 0").to_csv() for r in (run, finished)
  ]
  assert firsts[0] == firsts[1]


def test_a_damaged_record_stops_a_run_that_goes_on(tmp_path, monkeypatch):
  folder = RunFolder(tmp_path / "run")
  save = records.save

  def save_half(of, record):
    save(of, record)
    content = of.label_correction.read_bytes()
    of.label_correction.write_bytes(content[: len(content) // 2])
    raise KeyboardInterrupt

  with monkeypatch.context() as patched:
    patched.setattr(records, "save", save_half)
    with pytest.raises(KeyboardInterrupt):
      experiments.run(SPEC, folder.path, progress=False)
  with pytest.raises(array_files.DamageError):
    experiments.run(SPEC, folder.path, progress=False)
  assert folder.label_correction.exists()


def test_without_correction_nothing_changes(tmp_path):
  spec, parts = SPEC.replace(label_correction="none"), object()
  assert correction.correct(RunFolder(tmp_path), spec, parts, print) == (
    parts,
    None,
  )
  assert not list(tmp_path.iterdir())


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
      "leave one of the two out",
    ),
    ({"attack": "scaling", "attack_strength": -1.0}, "attack", "honest"),
    ({"aggregation": "secure"}, "aggregation", "noise level"),
  ],
)
def test_what_does_not_go_together_is_an_error(changes, field, words):
  clients = {"clients_per_round": None} if "task_options" in changes else {}
  with pytest.raises(FieldError, match=words) as raised:
    assembled.parts_of(SPEC.replace(**changes, **clients))
  assert raised.value.field == field


def test_a_task_without_class_labels_is_an_error(monkeypatch):
  load = task_loading.load

  def load_regression(*arguments):
    return dataclasses.replace(load(*arguments), num_classes=None)

  monkeypatch.setattr(task_loading, "load", load_regression)
  with pytest.raises(FieldError) as raised:
    assembled.parts_of(SPEC)
  assert raised.value.field == "label_correction"


def test_workers_that_read_the_data_are_an_error(monkeypatch):
  correction.check(SPEC, has_labels=True)
  monkeypatch.setattr("tff_fair.runtime.builds_data", lambda: True)
  with pytest.raises(FieldError, match="engine=dask"):
    correction.check(SPEC, has_labels=True)
  correction.check(SPEC.replace(label_correction="none"), has_labels=False)
