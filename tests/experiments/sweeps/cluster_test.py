"""Tests that a sweep over a cluster writes the files of a local sweep.

submitit and Dask start processes on this machine, which only pretend to train,
and which the tests interrupt and kill.
"""

import os
import signal
import threading

import pytest

from tests import waiting
from tests.cases import one_of_each
from tests.experiments.sweeps import fake_slurm, slow_training
from tff_fair.experiments import RunSpec, interruption
from tff_fair.experiments.runs import claim
from tff_fair.experiments.sweeps import (
  processes,
  runner,
  submitit_jobs,
  sweep,
)

pytestmark = pytest.mark.program

SPECS = RunSpec(algorithm="fedavg", total_rounds=slow_training.ROUNDS).vary(
  seed=[0, 1]
)
SLOW = "fedavg-seed=1"
EXECUTORS = one_of_each(
  [
    ("submitit", {"cluster": "slurm", "restarts": 1}),
    ("dask", {"restarts": 1}),
    ("submitit", {"cluster": "local", "restarts": 1}),
  ],
)


@pytest.fixture(autouse=True)
def fake(monkeypatch, tmp_path_factory):
  fake_slurm.install(tmp_path_factory.mktemp("slurm"), monkeypatch)
  monkeypatch.setattr(runner, "train", slow_training.train)
  monkeypatch.setattr(processes, "_PRELOADED", slow_training.__name__)
  monkeypatch.setattr(submitit_jobs.SubmititJobs, "poll_interval_seconds", 0.2)
  monkeypatch.setattr(submitit_jobs, "_SECONDS_UNTIL_WRITTEN", 1.0)
  monkeypatch.setattr(submitit_jobs, "_WATCHER_INTERVAL_SECONDS", 1)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
  """Returns the files of a sweep on this machine."""
  folder = tmp_path_factory.mktemp("local")
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(runner, "train", slow_training.train)
    patch.setattr(processes, "_PRELOADED", slow_training.__name__)
    sweep(SPECS, folder, progress=False)
  return contents(folder)


def contents(folder):
  """Returns the contents of runs' files by name, without logs."""
  return {
    str(path.relative_to(folder)): path.read_text().replace(str(folder), "")
    for path in folder.rglob("*")
    # Leaves out submitit's files, since those of a lost job stay.
    if path.is_file()
    and path.name != "log.txt"
    and "submitit" not in path.parts
  }


def when_saved(folder, rounds, act):
  """Starts a thread that calls `act` once the slow run has saved `rounds`."""

  def wait():
    metrics = folder / SLOW / "metrics.csv"
    waiting.until(lambda: waiting.has_rounds(metrics, rounds - 1))
    act()

  threading.Thread(target=wait, daemon=True).start()


def kill_node(folder):
  """Kills a run and the process that started it."""
  for pid in map(int, (folder / f"{SLOW}.pids").read_text().split()):
    os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "options"), EXECUTORS)
def test_a_sweep_over_a_cluster_loses_nothing(
  tmp_path, local, capfd, name, options
):
  def sweep_there(**others):
    return sweep(
      SPECS, tmp_path, **others, executor=name, executor_options=options
    )

  when_saved(tmp_path, 3, lambda: os.kill(os.getpid(), signal.SIGINT))
  with pytest.raises(
    interruption.Interrupted, match="repeat the command to resume"
  ):
    sweep_there(jobs=2)
  log = tmp_path / f"{SLOW}.log"
  assert log.read_text().splitlines()[-1].startswith("Interrupted.")
  saved = (tmp_path / SLOW / "metrics.csv").read_text().count("\n")
  assert 3 <= saved < slow_training.ROUNDS
  assert not claim.is_held(tmp_path / SLOW / "config.json")

  when_saved(tmp_path, saved + 3, lambda: kill_node(tmp_path))
  runs = sweep_there(jobs=2)
  assert [run.seed for run in runs] == [0, 1]
  text = (tmp_path / SLOW / "log.txt").read_text()
  starts = [line for line in text.splitlines() if line.startswith("after")]
  assert starts[:2] == ["after round 0", f"after round {saved}"]
  assert len(starts) == 3
  said = capfd.readouterr().err
  assert f"{SLOW}: cut off (" in said
  assert "another job resumes after round " in said
  assert contents(tmp_path) == local
