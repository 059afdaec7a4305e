"""Tests of running from Python: scripts, notebooks, threads."""

import asyncio
import concurrent.futures
import json
import os
import pathlib
import shutil
import signal
import sys

import numpy as np
import pytest
import tensorflow_federated as tff
from tensorboard.backend.event_processing import event_accumulator

import tasks
from tests.cases import one_of_each
from tests.experiments.training.small_run import (
  SMALL,
  before_round,
  check_same,
  interrupt,
  tables,
  train,
)
from tests.refusals import rejected
from tff_fair import experiments, runtime
from tff_fair.experiments import interruption
from tff_fair.experiments.runs import checksums, folder as run_folder, integrity
from tff_fair.experiments.spec import task_loading
from tff_fair.experiments.training import in_memory
from tff_fair.runtime import compilation_cache

pytestmark = pytest.mark.usefixtures(
  "compiled_once", "unpainted", "in_new_folder"
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  """Returns a finished run, which no test changes."""
  path = tmp_path_factory.mktemp("runs") / "finished"
  return train(SMALL, path)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
  """Returns the run with its measurements, which change no training."""
  spec = SMALL.replace(certificate=True, measure_improvement=True)
  return train(spec, tmp_path_factory.mktemp("runs") / "measured")


def accuracies(run):
  return run.client_evaluations["accuracy"].tolist()


def test_runs_in_silence_whatever_the_command_line_is(
  finished, capfd, monkeypatch
):
  monkeypatch.setattr(sys, "argv", ["notebook", "--batch_size=-1"])
  run = train(SMALL)
  assert capfd.readouterr() == ("", "")
  assert run.path == pathlib.Path("outputs/digits-fedavg")
  assert run.is_finished
  assert run.spec == SMALL
  assert experiments.open_run(run.path).summary == run.summary
  assert accuracies(run) == accuracies(finished)
  assert len(run.rounds) == 3
  line = json.loads((run.path / "config.json").read_text())["command"]["line"]
  assert line.startswith("python -m binaries.train --algorithm=fedavg ")


def test_runs_where_an_event_loop_runs_as_in_a_notebook(capfd):
  async def cell():
    return experiments.run(SMALL, "run")

  assert asyncio.run(cell()).is_finished
  stdout, stderr = capfd.readouterr()
  assert stdout == ""
  assert "round 3/3" in stderr
  assert "run: done; it holds all tables and plots." in stderr


def test_tables_begin_before_training_and_have_the_clients_losses(
  finished, measured
):
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
  # `loss` and `loss_before` are both of the model before the round, on clients'
  # training data.
  assert measured.cohorts is not None
  np.testing.assert_allclose(
    cohorts["loss"], measured.cohorts["loss_before"], rtol=1e-5
  )


def test_runs_in_a_thread_and_computes_where_the_user_said(finished):
  runtime.use_local()
  before = tff.framework.get_context_stack().current
  with concurrent.futures.ThreadPoolExecutor(1) as executor:
    in_thread = executor.submit(
      experiments.run, SMALL, "thread", progress=False
    ).result()
  assert tff.framework.get_context_stack().current is before
  assert accuracies(in_thread) == accuracies(finished)


def all_of(run):
  """Returns what must be the same for equal runs in different folders."""
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


def check_record(path):
  """Checks that all files of a run agree with the run's checksums."""
  folder = run_folder.RunFolder(path)
  assert integrity.changes(folder, verify=True) == {}
  names = {name.partition("/")[0] for name in checksums.read(path)}
  there = {found.name for found in folder.recorded_files if found.exists()}
  if not folder.is_finished:
    there -= {folder.checkpoints.name, folder.best_checkpoint.name}
  assert names == there


@pytest.mark.parametrize("total_rounds", one_of_each([3, 4]))
def test_a_finished_run_goes_on_as_one_that_was_longer_from_the_start(
  total_rounds,
):
  longer = SMALL.replace(
    total_rounds=6, criterion="worst_10", patience=9, pooled_baseline=True
  )
  whole = train(longer, "whole")
  shorter = longer.replace(total_rounds=total_rounds)
  run = train(shorter, "run")
  assert run.evaluations["round"].iloc[-1] == total_rounds
  before = {path: path.read_bytes() for path in run.path.glob("*.*")}
  with pytest.raises(experiments.RunError, match=r"^run: .*finished"):
    train(longer.replace(seed=1), "run")
  assert {path: path.read_bytes() for path in before} == before
  # Ctrl-C comes in one of the new rounds.
  interrupt(longer, "run", after=5)
  assert not experiments.open_run("run").is_finished
  check_record(run.path)
  run = train(longer, "run")
  check_record(run.path)
  assert all_of(run) == all_of(whole)
  first, second = (
    run_folder.RunFolder(each.path).pooled_baseline for each in (run, whole)
  )
  assert first.read_bytes() == second.read_bytes()
  for best in (False, True):
    check_same(run.weights(best=best), whole.weights(best=best))


def check_same_without_a_folder(run):
  found = in_memory.train_and_evaluate(
    run.spec, task_loading.load(run.spec), compilation_cache.user_cache()
  )
  expected = run.last_evaluation["loss"].to_numpy(np.float32)
  np.testing.assert_array_equal(found.clients["loss"], expected)


def test_cohorts_follow_the_last_losses_and_personal_models_resume():
  """Compares power of choice among all clients with a loop."""
  spec = SMALL.replace(
    task_options={"num_clients": 6},
    algorithm="ditto",
    sampling="power_of_choice",
    sampling_candidates=6,
    clients_per_round=2,
    dropout=0.3,
    total_rounds=7,
  )
  whole = train(spec, "whole")
  interrupt(spec, "run", after=4)
  run = train(spec, "run")
  assert tables(run) == tables(whole)
  check_same(run.weights(), whole.weights())
  last = np.full(6, np.inf)
  for _, rows in whole.cohorts.groupby("round"):
    ids = rows["client_id"].to_numpy()
    order = sorted(range(6), key=lambda k: (-last[k], k))
    assert set(ids) <= set(order[:2])
    last[ids] = rows["loss"]
  check_same_without_a_folder(whole)


def test_ctrl_c_saves_and_the_same_call_goes_on(finished):
  handler = signal.getsignal(signal.SIGINT)
  signal.signal(signal.SIGINT, signal.default_int_handler)
  try:
    raised = interrupt(SMALL, "run", after=2)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
  finally:
    signal.signal(signal.SIGINT, handler)
  assert isinstance(raised, interruption.Interrupted)
  assert "2 of 3 rounds are saved in run" in str(raised)
  assert not experiments.open_run("run").is_finished
  run = train(SMALL, "run")
  assert accuracies(run) == accuracies(finished)
  assert run.summary == finished.summary


@pytest.mark.long
@pytest.mark.parametrize("number", [1, 2])
def test_a_folder_that_is_moved_meanwhile_goes_on_once_it_is_back(
  finished, number, monkeypatch
):
  path, elsewhere = pathlib.Path("run"), pathlib.Path("elsewhere")
  with monkeypatch.context() as patched:
    before_round(patched, number, lambda: path.rename(elsewhere))
    with pytest.raises(experiments.RunError, match="elsewhere") as raised:
      train(SMALL, path)
  assert "\n" not in str(raised.value)
  assert not path.exists()
  elsewhere.rename(path)
  run = train(SMALL, path)
  assert tables(run) == tables(finished)


def test_a_folder_that_is_removed_or_replaced_is_not_made_anew(monkeypatch):
  path = pathlib.Path("run")

  def replace():
    path.rename("elsewhere")
    path.mkdir()
    (path / "metrics.csv").write_text("of a user")

  def remove():
    while path.exists():  # A thread still writes the round before.
      shutil.rmtree(path, ignore_errors=True)

  for act in (remove, replace):
    with monkeypatch.context() as patched:
      before_round(patched, 2, act)
      with pytest.raises(
        experiments.RunError, match="during the run; nothing was"
      ):
        train(SMALL, path)
    left = [file.name for file in path.glob("*")]
    assert left == (["metrics.csv"] if act is replace else [])
  assert (path / "metrics.csv").read_text() == "of a user"


def test_an_error_leaves_nothing():
  with rejected("clients_per_round"):
    train(SMALL.replace(clients_per_round=7))
  with pytest.raises(tasks.DataError, match="absent"):
    train(SMALL.replace(data_dir="absent"))
  for options, word in (
    ({"engine": "clouds"}, "dask"),
    ({"engine": "local", "scheduler": "tcp://127.0.0.1:1"}, "scheduler"),
    ({"dask_workers": 0}, "num_workers=0"),
  ):
    with rejected("engine", word):
      train(SMALL.replace(data_dir="absent"), **options)
  assert os.listdir() == []


# client_evaluation_test.py tests the evaluation of each kind of process.
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
  run = train(spec, "run")
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
    check_same(model.get_weights(), run.weights(best=best))


def test_a_state_that_was_not_kept_is_an_error(finished):
  shutil.copytree(finished.path, "run")
  run = experiments.open_run("run")
  with pytest.raises(experiments.RunError, match="best_checkpoint"):
    run.weights(best=True)
  (run.path / "checkpoints/program_state_3/saved_model.pb").unlink()
  with pytest.raises(experiments.RunError, match="program_state_3"):
    run.weights()


def test_a_run_that_stops_at_a_stationary_round_goes_on_to_the_same_end(
  measured,
):
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
    stopped = train(spec, "stopped")
    assert stopped.summary is not None
    assert stopped.summary["rounds"] == last
    assert stopped.evaluations["round"].iloc[-1] == last
    # As after a crash: the last round is saved, but there is no summary.
    (stopped.path / "summary.json").unlink()
  check_same_without_a_folder(stopped)
