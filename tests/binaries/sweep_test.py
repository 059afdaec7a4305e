"""Tests of the program as its users start it: runs side by side, signals."""

import os
import signal
import subprocess
import time

import pytest

from tests import source_tree
from tff_fair.experiments.runs import finding

SWEEP = """
[flags]
task_option = ["num_clients=5"]
total_rounds = 30
rounds_per_evaluation = 30
[[methods]]
name = "Mean"
algorithm = "fedavg"
[[methods]]
algorithm = "fedavg"
flags = {clients_per_round = 50}
"""
GOOD, BAD = "fedavg-seed=0", "fedavg-clients_per_round=50-seed=0"
TIMEOUT = 150

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiled_once")]


@pytest.fixture
def start(tmp_path, warm_python):
  """Starts the sweep; ends what is left of it."""
  (tmp_path / "sweep.toml").write_text(SWEEP)
  environment = {**os.environ, "PYTHONPATH": str(source_tree.ROOT)}
  environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # Imports have added it.
  started = []

  def run(*arguments):
    log = tmp_path / "log.txt"
    with log.open("w") as output:
      process = subprocess.Popen(
        [
          *(warm_python, "-m", "binaries.sweep", "--file=sweep.toml"),
          *("--output_dir=out", *arguments),
        ],
        cwd=tmp_path,
        env=environment,
        stdout=output,
        stderr=output,
        # A group of its own, which Ctrl-C reaches as a whole.
        start_new_session=True,
      )
    started.append(process)
    return process, log

  yield run
  for process in started:
    process.kill()
    process.wait()


def wait_for_rounds(process, log, metrics, number):
  deadline = time.monotonic() + TIMEOUT
  while not metrics.exists() or metrics.read_bytes().count(b"\n") <= number:
    assert process.poll() is None, log.read_text()
    assert time.monotonic() < deadline, log.read_text()
    time.sleep(0.01)


def test_a_sweep_goes_on_after_an_interruption_and_a_failure(start, tmp_path):
  folder = tmp_path / "out"
  process, log = start("--jobs=2")
  wait_for_rounds(process, log, folder / GOOD / "metrics.csv", 3)
  os.killpg(process.pid, signal.SIGINT)
  assert process.wait(TIMEOUT) == 130
  *_, last = log.read_text().splitlines()
  assert last.startswith("Interrupted. 0 of 2 runs are finished in out, what")
  assert "Traceback" not in log.read_text()
  saved = (folder / GOOD / "metrics.csv").read_text().count("\n") - 1
  assert 3 <= saved < 30

  process, log = start("--validation_fraction=0")
  assert process.wait(TIMEOUT) == 1
  said = log.read_text()
  assert f"1/2 {GOOD}: accuracy " in said
  assert f"2/2 {BAD}: FAILED (status 2, " in said
  assert "--clients_per_round=50: the task has 5 clients" in said
  assert "1 of 2 runs failed, see above" in said
  (best,) = (line for line in said.splitlines() if line.startswith("Mean  "))
  assert best.split()[1:3] == ["1", "1"]

  (run,) = finding.find([folder])
  assert run.is_finished
  assert run.name == "Mean"
  assert run.evaluations["round"].tolist() == [0, 30]
  assert run.rounds["round"].tolist() == list(range(1, 31))
  assert f"going on after round {saved}." in (
    (folder / GOOD / "log.txt").read_text()
  )
  assert sorted(path.name for path in folder.iterdir()) == [
    f"{BAD}.log",
    GOOD,
    "sweep.json",
  ]

  process, log = start("--dry_run")
  assert process.wait(TIMEOUT) == 0
  assert [line.split() for line in log.read_text().splitlines()] == [
    ["finished", f"out/{GOOD}"],
    ["new", f"out/{BAD}"],
    ["2", "runs:", "1", "finished,", "1", "new"],
  ]
