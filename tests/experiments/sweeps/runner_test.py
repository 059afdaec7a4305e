import json
import os
import subprocess
import sys

import pytest

from tests import source_tree
from tests.experiments.sweeps import fake_training
from tff_fair.experiments import RunSpec
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.sweeps import plan, processes, runner, sweep

SPEC = RunSpec(algorithm="fedavg", total_rounds=2)
SCRIPT = """
from tests.experiments.sweeps import fake_training
from tff_fair.experiments import RunSpec
from tff_fair.experiments.sweeps import processes, runner, sweep

print("The script starts.")
runner.train = fake_training.train
processes._PRELOADED = "tests.experiments.sweeps.fake_training"
specs = RunSpec(algorithm="fedavg", total_rounds=2).vary(seed=[0, 1])
print([run.seed for run in sweep(specs, "out", jobs=2)])
"""


@pytest.fixture(autouse=True)
def fake(monkeypatch):
  """Trains nothing; the server does without TensorFlow."""
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


def test_finished_runs_stay_and_others_begin(tmp_path, capsys):
  (first,) = sweep([SPEC], tmp_path)
  log = first.path / "log.txt"
  # The run of another process than ours, which has kept its output.
  assert log.read_text().startswith("fedavg on ()")
  assert str(os.getpid()) not in log.read_text()
  assert not (tmp_path / f"{first.path.name}.log").exists()
  capsys.readouterr()
  found = sweep([SPEC, SPEC.replace(seed=1)], tmp_path)
  assert [run.seed for run in found] == [0, 1]
  said = capsys.readouterr().err
  assert "2 runs, 1 of them finished." in said
  assert "2/2 fedavg-seed=1: accuracy 70.0%, std 20.0%" in said


def test_nothing_is_said_without_progress(tmp_path, capfd):
  sweep([SPEC], tmp_path, progress=False)
  assert capfd.readouterr() == ("", "")


def test_failures_are_told_when_the_others_are_finished(tmp_path, capsys):
  specs = SPEC.vary(seed=[7, 8, 0])
  with pytest.raises(RunError) as error:
    sweep(specs, tmp_path)
  said = str(error.value)
  assert "2 of 3 runs failed; the same call tries them again." in said
  log = tmp_path / "fedavg-seed=7.log"
  assert f"fedavg-seed=7: seed=7: is 7. (log: {log})" in said
  (kept,) = (state for state in _states(tmp_path, specs) if state != "new")
  assert kept == "finished"
  shown = capsys.readouterr().err
  assert "1/3 fedavg-seed=7: FAILED (status 2, " in shown
  assert "2/3 fedavg-seed=8: FAILED (killed by signal 9, " in shown
  assert "--seed=7" in shown[shown.index("alone: ") :]


def test_a_program_says_how_mistakes_are_told(tmp_path):
  planned = plan.of_specs([SPEC.replace(seed=7)])
  program = runner.Runner(
    tmp_path, progress=False, describe=fake_training.describe
  )
  (failure,) = program.carry_out(planned, program.states(planned))
  assert failure.reason == "--seed=7: is 7."


def test_another_run_is_never_touched(tmp_path):
  sweep([SPEC], tmp_path)
  with pytest.raises(RunError, match=r"total_rounds=2 \(here 3\)"):
    sweep([SPEC.replace(total_rounds=3)], tmp_path)


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
  (tmp_path / "file").touch()
  with pytest.raises(RunError, match=r"file/out: cannot be written to: "):
    sweep([SPEC], tmp_path / "file" / "out")


@pytest.mark.parametrize("jobs", [0, -1])
def test_jobs_are_positive(tmp_path, jobs):
  with pytest.raises(ValueError, match="jobs must be a positive integer"):
    sweep([SPEC], tmp_path, jobs=jobs)


def test_no_runs_are_no_mistake(tmp_path):
  assert sweep([], tmp_path) == []


def test_a_script_needs_no_guard(tmp_path):
  # Python would import the script in each process, to start the sweep again.
  (tmp_path / "script.py").write_text(SCRIPT)
  ended = subprocess.run(
    [sys.executable, "script.py"],
    check=False,
    cwd=tmp_path,
    env={**os.environ, "PYTHONPATH": str(source_tree.ROOT)},
    capture_output=True,
    text=True,
    timeout=120,
  )
  assert ended.returncode == 0, ended.stderr
  assert ended.stdout == "The script starts.\n[0, 1]\n"
  assert "2/2 fedavg-seed=" in ended.stderr
  log = tmp_path / "out" / "fedavg-seed=0" / "log.txt"
  assert "script.py" not in log.read_text()


def _states(folder, specs):
  return runner.Runner(folder).states(plan.of_specs(specs))
