import functools
import json
import os
import re
import signal
import subprocess
import sys
from multiprocessing import forkserver

import pytest

from tests import source_tree, waiting
from tests.experiments import run_folders
from tests.experiments.sweeps import fake_training
from tff_fair.experiments import RunSpec
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import claim
from tff_fair.experiments.sweeps import plan, processes, runner, sweep

pytestmark = pytest.mark.program

SPEC = RunSpec(algorithm="fedavg", total_rounds=2)
SCRIPT = """
from tests.experiments.sweeps import fake_training
from tff_fair.experiments import RunSpec
from tff_fair.experiments.sweeps import processes, runner, sweep

print("The script starts.")
runner.train = fake_training.train
processes._PRELOADED = "tests.experiments.sweeps.fake_training"
specs = RunSpec(algorithm="fedavg", total_rounds=2).vary(seed=SEEDS)
print([run.seed for run in sweep(specs, "out", jobs=2)])
"""
TIMEOUT = 120


@pytest.fixture(autouse=True)
def fake(monkeypatch):
  """Replaces training; the server that forks runs does not load TensorFlow."""
  monkeypatch.setattr(runner, "train", fake_training.train)
  monkeypatch.setattr(processes, "_PRELOADED", fake_training.__name__)


def test_runs_are_returned_in_the_order_of_their_specs(tmp_path):
  specs = SPEC.vary(seed=[1, 0], client_learning_rate=[0.2, 0.1])
  found = sweep([*specs, specs[0]], tmp_path / "out", jobs=2)
  assert [run.path.name for run in found] == [
    "fedavg-client_learning_rate=0.2-seed=1",
    "fedavg-client_learning_rate=0.1-seed=1",
    "fedavg-client_learning_rate=0.2-seed=0",
    "fedavg-client_learning_rate=0.1-seed=0",
    "fedavg-client_learning_rate=0.2-seed=1",
  ]
  assert all(run.is_finished for run in found)
  assert [run.spec.client_learning_rate for run in found[:2]] == [0.2, 0.1]
  names = json.loads((tmp_path / "out" / "sweep.json").read_text())["names"]
  assert names == {run.path.name: "fedavg" for run in found}


def test_a_second_sweep_says_that_the_first_is_at_work(tmp_path):
  folder = tmp_path / "out"
  sweep([SPEC], folder)
  with claim.hold_folder(folder, print):
    before = sorted(folder.rglob("*"))
    with pytest.raises(RunError, match="another program is using") as raised:
      sweep([SPEC, SPEC.replace(seed=1)], folder)
    assert str(raised.value).startswith(str(folder))
    assert sorted(folder.rglob("*")) == before
  assert len(sweep([SPEC, SPEC.replace(seed=1)], folder)) == 2


def test_finished_runs_stay_and_others_begin(tmp_path, capsys):
  (first,) = sweep([SPEC], tmp_path)
  log = first.path / "log.txt"
  # The run was in a process of its own, which wrote its output to the log.
  assert log.read_text().startswith("fedavg ")
  assert str(os.getpid()) not in log.read_text()
  assert not (tmp_path / f"{first.path.name}.log").exists()
  capsys.readouterr()
  found = sweep([SPEC, SPEC.replace(seed=1)], tmp_path)
  assert [run.seed for run in found] == [0, 1]
  said = capsys.readouterr().err
  assert "2 runs, 1 of them finished." in said
  assert "2/2 fedavg-seed=1: accuracy 70.0%, std 20.0%" in said


def test_failures_are_told_when_the_others_are_finished(tmp_path, capsys):
  specs = SPEC.vary(seed=[7, 8, 0])
  with pytest.raises(RunError) as error:
    sweep(specs, tmp_path)
  said = str(error.value)
  assert "2 of 3 runs failed; repeat the call to try them again." in said
  log = tmp_path / "fedavg-seed=7.log"
  assert f"fedavg-seed=7: seed=7: is 7. (log: {log})" in said
  (kept,) = (state for state in _states(tmp_path, specs) if state != "new")
  assert kept == "finished"
  shown = capsys.readouterr().err
  assert "1/3 fedavg-seed=7: FAILED (status 2, " in shown
  assert "2/3 fedavg-seed=8: FAILED (killed by signal 9, " in shown
  alone = shown[shown.index("alone: ") :].partition("\n")[0]
  assert "--seed=7" in alone


def test_every_run_is_computed_as_the_user_says(tmp_path):
  options = {"engine": "local", "wandb": "fair"}
  program = runner.Runner(tmp_path, options=options)
  for run in plan.from_specs(SPEC.vary(seed=[0, 1])):
    for others in ({}, {"callbacks": []}):
      train = program.job(run, **others).train
      assert isinstance(train, functools.partial)
      assert train.keywords == {**options, **others}


@pytest.mark.long
def test_a_server_that_is_killed_is_told(tmp_path, monkeypatch):
  (tmp_path / "dying.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
  monkeypatch.syspath_prepend(tmp_path)
  monkeypatch.setattr(processes, "_PRELOADED", "dying")
  # The server of earlier tests would not notice the change.
  forkserver._forkserver._stop()  # type: ignore[attr-defined]
  with pytest.raises(
    RunError, match=r"cannot be started: .* was killed"
  ) as told:
    sweep([SPEC], tmp_path / "out")
  assert "\n" not in str(told.value)


def test_runs_outlive_the_server_that_is_killed(tmp_path, capsys):
  assert len(sweep(SPEC.vary(seed=[6, 0]), tmp_path)) == 2
  said = capsys.readouterr().err
  assert "1/2 fedavg-seed=6: accuracy" in said
  # The second run waited for the first one.
  assert said.index("fedavg-seed=6") < said.index("fedavg-seed=0")


@pytest.fixture
def start(start_program, tmp_path):
  """Returns a function that starts a script that sweeps over seeds."""

  def run(seeds, cwd=tmp_path):
    text = SCRIPT.replace("SEEDS", repr(seeds))
    (tmp_path / "script.py").write_text(text)
    return start_program(
      [sys.executable, tmp_path / "script.py"],
      cwd=cwd,
      env={**os.environ, "PYTHONPATH": str(source_tree.ROOT)},
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
    )

  return run


def test_a_script_needs_no_guard_wherever_it_starts(start, tmp_path):
  elsewhere = tmp_path / "elsewhere"
  elsewhere.mkdir()
  (elsewhere / "tasks.py").write_text("raise SystemExit('not ours')\n")
  process = start([0, 1], cwd=elsewhere)
  output, said = process.communicate(timeout=TIMEOUT)
  assert process.returncode == 0, said
  # Python's own multiprocessing would import the script in each process, and so
  # start the sweep again.
  assert output == "The script starts.\n[0, 1]\n"
  assert "2/2 fedavg-seed=" in said
  log = elsewhere / "out" / "fedavg-seed=0" / "log.txt"
  assert "script.py" not in log.read_text()


def test_runs_are_asked_to_end_when_the_script_is(start, tmp_path):
  process = start([0, 9])
  log = tmp_path / "out" / "fedavg-seed=9.log"
  finished = tmp_path / "out" / "fedavg-seed=0" / "log.txt"
  waiting.until(
    lambda: finished.exists() and log.exists() and "main" in log.read_text(),
    process=process,
  )
  process.send_signal(signal.SIGINT)
  _, said = process.communicate(timeout=TIMEOUT)
  assert process.returncode != 0
  assert "1 of 2 runs are finished in out, what the others had is saved" in said
  assert log.read_text().splitlines()[-1] == "Interrupted."


def _states(folder, specs):
  return runner.Runner(folder).states(plan.from_specs(specs))


TERM = RunSpec(algorithm="term", total_rounds=2, hparams={"t": 2})


def make(path, t=2.0, **settings):
  return run_folders.make(path, algorithm="term", hparams={"t": t}, **settings)


def test_a_folder_shows_the_state_of_its_run(tmp_path):
  assert runner.state_of(TERM, tmp_path / "x") == "new"
  (tmp_path / "config.json").touch()
  assert runner.state_of(TERM, tmp_path) == "new"
  path = make(tmp_path / "a")
  # A default that is given explicitly does not make another run.
  same = TERM.replace(task_options={"num_clients": 30}, clients_per_round=10)
  assert runner.state_of(TERM, path) == "finished"
  assert runner.state_of(same, path) == "finished"
  path = make(tmp_path / "b", is_finished=False)
  assert runner.state_of(TERM, path) == "interrupted"


def test_another_run_is_in_the_way(tmp_path):
  path = make(tmp_path / "a", t=1.0)
  told = re.escape(f"{path}: holds a run with hparam.t=1.0 (here 2.0)")
  with pytest.raises(RunError, match=told):
    runner.state_of(TERM, path)
