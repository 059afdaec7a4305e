"""Tests of tff-fair-train as users start it: signals, pipes, the terminal."""

import pathlib
import signal
import subprocess
import sys
import time

import psutil
import pytest

from binaries import train
from tests import sockets, source_tree, waiting
from tests.binaries import in_process
from tests.cases import one_of_each
from tff_fair.experiments.runs import folder as run_folder

NUM_ROUNDS = 20
COMMAND = (
  *("-m", "binaries.train"),
  "--task_option=num_clients=6",
  "--task_option=model=logistic_regression",
  "--algorithm=fedavg",
  "--sampling=proportional",
  "--clients_per_round=4",
  "--criterion=worst_10",
  f"--total_rounds={NUM_ROUNDS}",
  "--rounds_per_evaluation=7",
  "--rounds_per_checkpoint=2",
  "--output_dir=run",
)
TIMEOUT = 150

pytestmark = [
  pytest.mark.slow,
  pytest.mark.usefixtures("compiled_once", "unpainted"),
]


@pytest.fixture
def start(start_program, tmp_path):
  """Returns a function that starts a training, which writes to log.txt.

  That function returns the process, and a function that waits until the run has
  completed a number of rounds.
  """
  metrics, log = tmp_path / "run" / "metrics.csv", tmp_path / "log.txt"

  def run(*command):
    with log.open("w") as output:
      process = start_program(
        command,
        cwd=tmp_path,
        env=source_tree.environment(of_tests=False),
        stdout=output,
        stderr=output,
      )
    return process, lambda number: waiting.until(
      lambda: waiting.has_rounds(metrics, number), process=process, log=log
    )

  return run


@pytest.mark.long
def test_a_run_ends_also_where_its_output_is_piped(tmp_path):
  result = subprocess.run(
    [sys.executable, *COMMAND],
    cwd=tmp_path,
    env=source_tree.environment(of_tests=False),
    check=False,
    capture_output=True,
    text=True,
    timeout=TIMEOUT,
  )
  assert result.returncode == 0, result.stderr
  assert result.stdout.startswith("Test accuracy over 6 clients after 20 ")
  # None of TensorFlow's messages may appear between the program's lines.
  *news, last = result.stderr.strip().splitlines()
  assert [line.split(":")[0] for line in news[:3]] == [
    "digits",
    "fedavg",
    "run",
  ]
  assert all(line.startswith("round ") for line in news[3:])
  # On a slow machine there are also lines of progress.
  evaluated = [line for line in news[3:] if "accuracy" in line]
  assert [line.split()[1] for line in evaluated] == [
    f"{n}/20," for n in (0, 7, 14, 20)
  ]
  assert last.startswith("run: done")
  assert run_folder.RunFolder(tmp_path / "run").is_finished


@pytest.mark.parametrize(
  ("number", "seconds"),
  [(signal.SIGINT, 0.0), (signal.SIGTERM, 1.0), (signal.SIGINT, 3.0)],
)
def test_a_signal_at_the_start_ends_the_program(
  start_program, tmp_path, number, seconds
):
  process = start_program(
    [sys.executable, *COMMAND],
    cwd=tmp_path,
    env=source_tree.environment(of_tests=False),
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
  )
  maps = pathlib.Path(f"/proc/{process.pid}/maps")
  # NumPy in memory shows that the imports have begun.
  waiting.until(lambda: "numpy" in maps.read_text(), process=process)
  time.sleep(seconds)
  process.send_signal(number)
  said, _ = process.communicate(timeout=TIMEOUT)
  assert process.returncode in (-number, 128 + number), said
  assert "Traceback" not in said


@pytest.mark.parametrize(
  ("number", "status"),
  one_of_each([(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)]),
)
def test_an_interrupted_run_ends_as_if_it_were_not(
  start, tmp_path, monkeypatch, warm_python, number, status
):
  process, wait_for = start(warm_python, *COMMAND)
  wait_for(6)
  process.send_signal(number)
  assert process.wait(TIMEOUT) == status
  output = (tmp_path / "log.txt").read_text()
  if number == signal.SIGINT:
    *_, line = output.splitlines()
    assert line.startswith("Interrupted. ")
    assert "of 20 rounds are saved in run; repeat the command" in line
  assert "Traceback" not in output

  (tmp_path / "whole").mkdir()
  outcomes = []
  for folder in (tmp_path, tmp_path / "whole"):
    monkeypatch.chdir(folder)
    outcomes.append(in_process.run(train, *COMMAND[2:]))
  resumed, whole = outcomes
  assert resumed.status == whole.status == 0, resumed.stderr
  assert "run: resuming after round " in resumed.stderr
  assert "run: resuming" not in whole.stderr
  assert resumed.stdout == whole.stdout
  assert in_process.repeatable(tmp_path / "run") == (
    in_process.repeatable(tmp_path / "whole" / "run")
  )


@pytest.mark.long
def test_training_listens_nowhere_and_starts_no_process(start):
  process, wait_for = start(source_tree.ROOT / "train", *COMMAND[2:])
  for number in (1, NUM_ROUNDS // 2):  # After the set-up.
    wait_for(number)
    assert sockets.listening(process.pid) == set()
    assert psutil.Process(process.pid).children(recursive=True) == []
  assert process.wait(TIMEOUT) == 0
