"""Tests of Weights & Biases without a network."""

import importlib.util
import json
from types import SimpleNamespace

import pytest
import wandb
from wandb.proto import wandb_internal_pb2
from wandb.sdk.internal import datastore

from tests.experiments.training.rounds_test import round_state
from tests.refusals import rejected
from tff_fair.experiments import RunSpec
from tff_fair.experiments.runs import folder as run_folder
from tff_fair.experiments.training import execution, wandb_log
from tff_fair.experiments.training.callbacks import Callbacks
from tff_fair.experiments.training.round_state import RoundEvaluation

SPEC = RunSpec(algorithm="adafed", hparams={"gamma": 0.5}, total_rounds=4)
SUMMARY = {"accuracy": {"mean": 0.5, "std": 0.25}, "accuracy_weighted": 0.75}


@pytest.fixture
def folder(tmp_path, monkeypatch):
  monkeypatch.setenv("WANDB_MODE", "offline")
  # No other file of this machine may have an effect.
  monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "config"))
  monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))
  path = tmp_path / "run"
  path.mkdir()
  return run_folder.RunFolder(path)


def log(folder, said, *rounds):
  callback = wandb_log.Wandb(folder, SPEC, "fair", said.append)
  with Callbacks([callback]) as callbacks:
    callbacks.start(SimpleNamespace(path=folder.path))
    for key in rounds:
      callback.write(round_state(key, evaluation=RoundEvaluation(SUMMARY, {})))
  wandb.teardown()  # Everything is on disk now.


def records(folder):
  """Returns the records in the datastore of each start."""
  starts = []
  for path in sorted(folder.wandb.glob("offline-run-*/*.wandb")):
    store = datastore.DataStore()
    store.open_for_scan(str(path))
    found = []
    while (data := store.scan_data()) is not None:
      found.append(wandb_internal_pb2.Record.FromString(data))
    starts.append(found)
  return starts


def history(found):
  return [
    {
      ".".join(item.nested_key) or item.key: json.loads(item.value_json)
      for item in record.history.item
    }
    for record in found
    if record.WhichOneof("record_type") == "history"
  ]


def run_of(found):
  (run,) = (r.run for r in found if r.WhichOneof("record_type") == "run")
  return run


def test_evaluations_and_settings_are_written_and_a_resumed_run_is_the_same(
  folder,
):
  said = []
  log(folder, said, 2)
  log(folder, said, 4)
  assert said == []
  first, second = sorted(records(folder), key=lambda f: history(f)[0]["_step"])
  for found, step in ((first, 2), (second, 4)):
    (row,) = history(found)
    assert row["_step"] == step
    assert row["accuracy/mean"] == 0.5
    assert row["accuracy_weighted"] == 0.75
  one, other = map(run_of, (first, second))
  assert one.run_id == other.run_id
  assert (one.project, one.display_name) == ("fair", "run")
  config = {u.key: json.loads(u.value_json) for u in one.config.update}
  assert config["hparams"] == {"gamma": 0.5}
  assert config["total_rounds"] == 4


def test_an_error_is_one_line_and_the_end_of_it(folder, monkeypatch):
  class Run:
    def log(self, *_, **__):
      raise OSError("the disk\nis full")

    def finish(self, **__):
      raise AssertionError("It is closed.")

  monkeypatch.setattr(wandb, "init", lambda **_: Run())
  said = []
  log(folder, said, 1, 2)
  assert said == [
    "Weights & Biases: the disk is full. The training goes on without it."
  ]


def test_an_interrupted_run_does_not_count_as_done(folder, monkeypatch):
  ended = []

  class Run:
    def finish(self, exit_code):
      ended.append(exit_code)

  monkeypatch.setattr(wandb, "init", lambda **_: Run())
  callback = wandb_log.Wandb(folder, SPEC, "fair", print)
  callback.on_start(SimpleNamespace(path=folder.path))
  callback.on_end(KeyboardInterrupt())
  assert ended == [1]


def test_a_missing_package_is_told_in_a_line(monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
  with rejected("wandb", "the extra wandb; install it with", value="fair"):
    execution.run(SPEC, wandb="fair")
