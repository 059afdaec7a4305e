"""A short search as its users start it, interrupted."""

import os
import signal
import subprocess
import time

import pytest

from tests import source_tree
from tff_fair.experiments.runs import finding
from tff_fair.experiments.searching import optuna_study, search_record

ARGUMENTS = (
  *("--algorithms=fedavg", "--trials=2", "--objective=worst_10"),
  *("--flag=task_option.num_clients=5", "--flag=total_rounds=4"),
  *("--flag=task_option.model=logistic_regression", "--pruner=median"),
  *("--flag=rounds_per_evaluation=2", "--output_dir=out"),
  "--range=client_learning_rate=0.01:1:log",
)
TIMEOUT = 200

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiled_once")]


@pytest.fixture
def start(tmp_path, warm_python):
  """Starts the program; ends what is left of it."""
  started = []

  def run():
    process = subprocess.Popen(
      [warm_python, "-m", "binaries.sweep", *ARGUMENTS],
      cwd=tmp_path,
      env={**os.environ, "PYTHONPATH": str(source_tree.ROOT)},
      stdout=subprocess.PIPE,
      stderr=subprocess.PIPE,
      text=True,
      start_new_session=True,
    )
    started.append(process)
    return process

  yield run
  for process in started:
    process.kill()
    process.wait()


def test_a_search_goes_on_after_an_interruption(start, tmp_path):
  folder = tmp_path / "out"
  process = start()
  deadline = time.monotonic() + TIMEOUT
  while not list(folder.glob("*/metrics.csv")):
    assert process.poll() is None, process.communicate()
    assert time.monotonic() < deadline
    time.sleep(0.02)
  os.killpg(process.pid, signal.SIGINT)
  _, said = process.communicate(timeout=TIMEOUT)
  assert process.returncode == 130, said
  assert "0 of 2 trials have ended in out, what" in said

  process = start()
  output, said = process.communicate(timeout=TIMEOUT)
  assert process.returncode == 0, said
  assert "fedavg: 2 trials, 2 complete." in output
  assert "python -m binaries.train --task_option=num_clients=5" in output or (
    "python -m binaries.train --algorithm=fedavg" in output
  )
  assert "Worst 10 %*" in output

  found = search_record.read(folder)
  (study,) = found.studies.values()
  trials = search_record.with_outcomes(folder, found, study)
  assert [trial.outcome.state for trial in trials] == ["complete"] * 2
  for number, trial in enumerate(trials):
    again = optuna_study.suggest(
      study.name, study.space, found.settings, trials[:number]
    )
    assert dict(trial.settings) == again
  for run in finding.find([folder]):
    assert run.rounds["round"].tolist() == [1, 2, 3, 4]
