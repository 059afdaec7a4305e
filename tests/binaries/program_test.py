"""Tests of the program as its users start it: signals, pipes, the terminal."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

import psutil
import pytest

from tests import source_tree, waiting
from tests.binaries import in_process
from tff_fair.experiments.runs import folder as run_folder

NUM_ROUNDS = 20
COMMAND = (
  *("-m", "binaries.train"),
  "--task_option=num_clients=12",
  "--task_option=model=logistic_regression",
  "--algorithm=semi_vred",
  "--hparam=beta=0.5",
  "--client_optimizer=momentum",
  "--server_optimizer=adam",
  "--server_learning_rate=0.05",
  "--sampling=proportional",
  "--clients_per_round=5",
  "--local_epochs=1-3",
  "--criterion=worst_10",
  f"--total_rounds={NUM_ROUNDS}",
  "--rounds_per_evaluation=7",
  "--rounds_per_checkpoint=4",
  "--output_dir=run",
)
TIMEOUT = 150

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiled_once")]


def finish(directory, python=sys.executable):
  """Runs the program to its end, its output in pipes as in `program | cat`."""
  return subprocess.run(
    [python, *COMMAND],
    cwd=directory,
    env=source_tree.environment(of_tests=False),
    check=False,
    capture_output=True,
    text=True,
    timeout=TIMEOUT,
  )


@contextlib.contextmanager
def started(command, directory):
  """Starts a training that writes to log.txt; kills it if it is still running.

  Yields the process and a function that waits for some rounds of the run.
  """
  metrics, log = directory / "run" / "metrics.csv", directory / "log.txt"
  with (
    log.open("w") as output,
    subprocess.Popen(
      command,
      cwd=directory,
      env=source_tree.environment(of_tests=False),
      stdout=output,
      stderr=output,
    ) as process,
  ):
    try:
      yield (
        process,
        lambda number: waiting.until(
          lambda: waiting.has_rounds(metrics, number), process=process, log=log
        ),
      )
    finally:
      process.kill()


def stop_in_the_middle(directory, python, signal_number, num_rounds):
  """Starts the program and sends a signal after some rounds of the run."""
  with started([python, *COMMAND], directory) as (process, wait_for):
    wait_for(num_rounds)
    process.send_signal(signal_number)
    return process.wait(TIMEOUT), (directory / "log.txt").read_text()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, warm_python):
  directory = tmp_path_factory.mktemp("uninterrupted")
  return directory, finish(directory, warm_python)


@pytest.mark.long
def test_a_run_ends_also_where_its_output_is_piped(tmp_path):
  result = finish(tmp_path)
  assert result.returncode == 0, result.stderr
  assert result.stdout.startswith("Test accuracy over 12 clients after 20 ")
  # None of TensorFlow's messages may appear between the program's lines.
  *news, last = result.stderr.strip().splitlines()
  assert [line.split(":")[0] for line in news[:3]] == [
    "digits",
    "semi_vred",
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
def test_a_signal_at_the_start_ends_the_program(tmp_path, number, seconds):
  process = subprocess.Popen(
    [sys.executable, *COMMAND],
    cwd=tmp_path,
    env=source_tree.environment(of_tests=False),
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
  )
  maps = pathlib.Path(f"/proc/{process.pid}/maps")
  try:
    # Its imports have begun.
    waiting.until(lambda: "numpy" in maps.read_text(), process=process)
    time.sleep(seconds)
    process.send_signal(number)
    said, _ = process.communicate(timeout=TIMEOUT)
  finally:
    process.kill()
  assert process.returncode in (-number, 128 + number), said
  assert "Traceback" not in said


def test_an_interrupted_run_ends_as_if_it_were_not(
  tmp_path, uninterrupted, warm_python
):
  stopped, output = stop_in_the_middle(
    tmp_path, warm_python, signal.SIGINT, num_rounds=6
  )
  assert stopped == 130
  *_, line = output.splitlines()
  assert line.startswith("Interrupted. ")
  assert "of 20 rounds are saved in run; repeat the command" in line
  assert "Traceback" not in output

  stopped, output = stop_in_the_middle(
    tmp_path, warm_python, signal.SIGKILL, num_rounds=14
  )
  assert stopped == -signal.SIGKILL
  assert "run: resuming after round " in output

  result = finish(tmp_path, warm_python)
  assert result.returncode == 0, result.stderr
  assert "run: resuming after round " in result.stderr
  reference, uninterrupted_result = uninterrupted
  assert result.stdout == uninterrupted_result.stdout
  found, wanted = (
    in_process.repeatable(directory / "run")
    for directory in (tmp_path, reference)
  )
  assert found == wanted


def listening(pid):
  """Returns the listening TCP and Unix sockets of a process."""
  held = set()
  for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
    with contextlib.suppress(OSError):  # It may close meanwhile.
      held.add(os.readlink(descriptor))
  found = []
  for kind, number, listens in (
    *(("tcp", 9, "0A"), ("tcp6", 9, "0A")),
    ("unix", 6, "00010000"),
  ):
    table = pathlib.Path(f"/proc/{pid}/net/{kind}").read_text()
    for line in table.splitlines()[1:]:
      words = line.split()
      if words[3] == listens and f"socket:[{words[number]}]" in held:
        found.append(line)
  return found


@pytest.mark.long
def test_training_listens_nowhere_and_starts_no_process(tmp_path):
  for family, address in (
    (socket.AF_INET, ("127.0.0.1", 0)),
    (socket.AF_UNIX, str(tmp_path / "socket")),
  ):
    with socket.socket(family) as here:
      here.bind(address)
      here.listen()
      assert len(listening(os.getpid())) == 1
  command = [source_tree.ROOT / "train", *COMMAND[2:]]
  with started(command, tmp_path) as (process, wait_for):
    for number in (1, NUM_ROUNDS // 2):  # The set-up is over.
      wait_for(number)
      assert listening(process.pid) == []
      assert psutil.Process(process.pid).children(recursive=True) == []
    assert process.wait(TIMEOUT) == 0
