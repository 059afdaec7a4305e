"""Tests of running from Python: scripts, notebooks, threads."""

import asyncio
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import sys
import threading

import numpy as np
import pandas as pd
import pytest
from tensorboard.backend.event_processing import event_accumulator

import tasks
import tff_fair
from tests.cases import one_of_each
from tests.experiments.training.small_run import SMALL
from tests.refusals import rejected
from tff_fair import experiments, runtime
from tff_fair.experiments import interruption
from tff_fair.experiments.runs import folder as run_folder
from tff_fair.experiments.training import rounds

pytestmark = pytest.mark.usefixtures("compiled_once", "unpainted")


@pytest.fixture(autouse=True)
def working_directory(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """A run that no test changes."""
  path = tmp_path_factory.mktemp("runs") / "finished"
  return experiments.run(SMALL, path, progress=False)


def accuracies(run):
  return run.client_evaluations["accuracy"].tolist()


def test_runs_twice_in_silence_whatever_the_command_line_is(capfd, monkeypatch):
  monkeypatch.setattr(sys, "argv", ["notebook", "--batch_size=-1"])
  first = experiments.run(SMALL, progress=False)
  second = experiments.run(SMALL, progress=False)
  assert capfd.readouterr() == ("", "")
  assert first.path == pathlib.Path("outputs/digits-fedavg")
  assert second.path == pathlib.Path("outputs/digits-fedavg-2")
  assert first.is_finished
  assert first.spec == second.spec == SMALL
  assert experiments.open_run(first.path).summary == first.summary
  assert accuracies(first) == accuracies(second)
  assert len(first.rounds) == 3
  line = json.loads((first.path / "config.json").read_text())["command"]["line"]
  assert line.startswith("python -m binaries.train --algorithm=fedavg ")


def test_runs_where_an_event_loop_runs_as_in_a_notebook(capfd):
  async def cell():
    return experiments.run(SMALL, "run")

  assert asyncio.run(cell()).is_finished
  stdout, stderr = capfd.readouterr()
  assert stdout == ""
  assert "round 3/3" in stderr
  assert "run: done; it holds all tables and plots." in stderr


def test_tables_begin_before_training_and_have_the_clients_losses(finished):
  run = finished
  assert run.evaluations["round"].tolist() == [0, 2, 3]
  of_round_0 = run.client_evaluations.query("round == 0")
  assert of_round_0["client_id"].tolist() == list(range(6))
  assert list(run.rounds["round"]) == list(run.timing["round"]) == [1, 2, 3]
  cohorts = run.cohorts
  assert cohorts is not None
  assert list(cohorts) == [
    *("round", "client_id", "coefficient", "loss_before", "loss_after", "loss"),
    *("blocking_weight", "excluded"),
  ]
  assert cohorts["excluded"].isna().all()
  assert cohorts[["loss_before", "loss_after"]].isna().all(axis=None)
  means = cohorts.groupby("round")["loss"].mean()
  np.testing.assert_allclose(
    means, run.rounds["aggregator/loss_mean"], rtol=1e-6
  )
  # The model before round 1, on the training data of its clients.
  measured = experiments.run(
    SMALL.replace(measure_improvement=True), "measured", progress=False
  )
  assert measured.cohorts is not None
  np.testing.assert_allclose(
    cohorts["loss"], measured.cohorts["loss_before"], rtol=1e-5
  )


def test_runs_in_a_thread_and_computes_where_the_user_said(finished):
  runtime.use_local()
  before = runtime.worker_pids()
  with concurrent.futures.ThreadPoolExecutor(1) as executor:
    in_thread = executor.submit(
      experiments.run, SMALL, "thread", progress=False
    ).result()
  assert runtime.worker_pids() == before
  assert accuracies(in_thread) == accuracies(finished)


def interrupting(last_round):
  """Returns `Rounds.run` with a Ctrl-C after a round."""
  run_round = rounds.Rounds.run

  def interrupted_round(self, state, round_num):
    if round_num == last_round + 1:
      signal.raise_signal(signal.SIGINT)
    return run_round(self, state, round_num)

  return interrupted_round


def all_of(run):
  """Returns what a run of the same length has in another folder, too."""
  folder = run_folder.RunFolder(run.path)
  tables = {*folder.round_tables, folder.clients, folder.labels} - {
    folder.timing
  }
  texts = {path.name: path.read_bytes() for path in tables}
  events = set()
  for path in folder.tensorboard.rglob("events.out.tfevents.*"):
    reader = event_accumulator.EventAccumulator(str(path.parent)).Reload()
    for tag in reader.Tags()["tensors"]:
      events |= {(path.parent.name, tag, e.step) for e in reader.Tensors(tag)}
  return texts, events, run.summary, run.spec


def same_weights(one, other, *, best):
  return all(
    np.array_equal(mine, others)
    for mine, others in zip(
      one.weights(best=best), other.weights(best=best), strict=True
    )
  )


@pytest.mark.parametrize("total_rounds", one_of_each([3, 4]))
def test_a_finished_run_goes_on_as_one_that_was_longer_from_the_start(
  monkeypatch, total_rounds
):
  longer = SMALL.replace(total_rounds=6, criterion="worst_10", patience=9)
  whole = experiments.run(longer, "whole", progress=False)
  shorter = longer.replace(total_rounds=total_rounds)
  run = experiments.run(shorter, "run", progress=False)
  assert run.evaluations["round"].iloc[-1] == total_rounds
  before = {path: path.read_bytes() for path in run.path.glob("*.*")}
  for other in (
    longer.replace(seed=1),
    longer.replace(rounds_per_evaluation=1),
    shorter,
    shorter.replace(total_rounds=2),
  ):
    with pytest.raises(experiments.RunError, match=r"^run: .*finished"):
      experiments.run(other, "run", progress=False)
  assert {path: path.read_bytes() for path in before} == before
  # Ctrl-C comes in the rounds that are new.
  with monkeypatch.context() as patched:
    patched.setattr(rounds.Rounds, "run", interrupting(5))
    with pytest.raises(KeyboardInterrupt):
      experiments.run(longer, "run", progress=False)
  assert not experiments.open_run("run").is_finished
  run = experiments.run(longer, "run", progress=False)
  assert all_of(run) == all_of(whole)
  assert same_weights(run, whole, best=False)
  assert same_weights(run, whole, best=True)


def test_ctrl_c_saves_and_the_same_call_goes_on(finished, monkeypatch):
  handler = signal.getsignal(signal.SIGINT)
  signal.signal(signal.SIGINT, signal.default_int_handler)
  try:
    with monkeypatch.context() as patched:
      patched.setattr(rounds.Rounds, "run", interrupting(2))
      with pytest.raises(KeyboardInterrupt) as raised:
        experiments.run(SMALL, "run", progress=False)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
  finally:
    signal.signal(signal.SIGINT, handler)
  assert isinstance(raised.value, interruption.Interrupted)
  assert "2 of 3 rounds are saved in run" in str(raised.value)
  assert not experiments.open_run("run").is_finished
  run = experiments.run(SMALL, "run", progress=False)
  assert accuracies(run) == accuracies(finished)
  assert run.summary == finished.summary


def test_signals_of_others_and_other_threads_are_left_to_them():
  assert signal.SIGTERM in interruption.unhandled_signals()
  former = signal.signal(signal.SIGTERM, lambda *_: None)
  try:
    assert signal.SIGTERM not in interruption.unhandled_signals()
  finally:
    signal.signal(signal.SIGTERM, former)
  found = []
  thread = threading.Thread(
    target=lambda: found.append(list(interruption.unhandled_signals()))
  )
  thread.start()
  thread.join()
  assert found == [[]]


def test_an_error_leaves_nothing():
  with rejected("clients_per_round"):
    experiments.run(SMALL.replace(clients_per_round=7), progress=False)
  with pytest.raises(tasks.DataError, match="absent"):
    experiments.run(SMALL.replace(data_dir="absent"), progress=False)
  with rejected("workers"):
    experiments.run(SMALL, workers=["nowhere"], progress=False)
  for engine, workers in (
    ("workers", []),
    ("local", ["localhost:1"]),
    ("clouds", []),
  ):
    with rejected("engine"):
      experiments.run(SMALL, engine=engine, workers=workers, progress=False)
  assert os.listdir() == []


# What a process evaluates, client_evaluation_test.py tests of each kind.
@pytest.mark.parametrize(
  "settings",
  one_of_each(
    [
      {},
      {"algorithm": "afl", "hparams": {"average_model": True}},
      {
        "personal_lam": 0.1,
        "client_optimizer": "momentum",
        "client_momentum_kept": True,
      },
    ]
  ),
)
def test_the_trained_model_is_the_one_that_was_evaluated(settings):
  spec = SMALL.replace(**{"algorithm": "fedavg", **settings}, criterion="mean")
  run = experiments.run(spec, "run", progress=False)
  task = tasks.load("digits", **spec.task_options)
  evaluations = run.client_evaluations
  column = "global_accuracy" if "global_accuracy" in evaluations else "accuracy"
  summary = run.summary or {}
  for best, round_num in ((False, 3), (True, summary["best"]["round"])):
    model = run.model(best=best)
    rows = evaluations[evaluations["round"] == round_num]
    found = []
    for client_id in rows["client_id"]:
      x, y = task.test.load(client_id)
      found.append(np.mean(np.argmax(model(x), axis=1) == y))
    np.testing.assert_allclose(found, rows[column], atol=1e-6)
    for one, other in zip(
      model.get_weights(), run.weights(best=best), strict=True
    ):
      np.testing.assert_array_equal(one, other)


def test_a_state_that_was_not_kept_is_an_error(finished):
  shutil.copytree(finished.path, "run")
  run = experiments.open_run("run")
  with pytest.raises(experiments.RunError, match="best_checkpoint"):
    run.weights(best=True)
  (run.path / "checkpoints/program_state_3/saved_model.pb").unlink()
  with pytest.raises(experiments.RunError, match="program_state_3"):
    run.weights()


def test_its_folder_has_what_a_folder_of_the_program_has(finished):
  run = finished
  folder = run_folder.RunFolder(run.path)
  assert {path.name for path in run.path.iterdir()} == {
    path.name for path in set(folder.files) - folder.optional_files
  }
  clients = pd.read_csv(folder.clients, float_precision="round_trip")
  summary = json.loads(folder.summary.read_text())
  assert run.summary == summary
  assert summary["test_accuracy"] == tff_fair.metrics.fairness_summary(
    clients["test_accuracy"]
  )


def test_a_run_that_stops_at_a_stationary_round_goes_on_to_the_same_end():
  measured = experiments.run(
    SMALL.replace(certificate=True), "measured", progress=False
  )
  values = measured.rounds["aggregator/pareto_stationarity"]
  assert values.between(0, 1).all()
  assert measured.cohorts is not None
  weights = measured.cohorts.groupby("round")["blocking_weight"].sum()
  np.testing.assert_allclose(weights, 1, rtol=1e-6)
  assert measured.summary is not None
  found = measured.summary["stationarity"]["pareto_stationarity"]
  assert found == pytest.approx(values.iloc[-1])
  bound = float(values.iloc[:2].min())
  last = int(values.iloc[:2].argmin()) + 1
  spec = SMALL.replace(stop_at_stationarity=bound)
  for _ in range(2):
    stopped = experiments.run(spec, "stopped", progress=False)
    assert stopped.summary is not None
    assert stopped.summary["rounds"] == last
    assert stopped.evaluations["round"].iloc[-1] == last
    # As after a crash: the round is saved, and the summary not yet written.
    (stopped.path / "summary.json").unlink()
