"""Tests of tff-fair-sweep as users start it: runs side by side, signals."""

import os
import signal

import pytest

from tests import source_tree, waiting
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.sweeps import optuna_study, trials as search_trials

SWEEP = """
[flags]
task_option = ["num_clients=5", "model=logistic_regression"]
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
FILE = "--file=sweep.toml"
SEARCH = (
  *("--algorithms=fedavg", "--trials=2", "--objective=worst_10"),
  *("--flag=task_option.num_clients=5", "--flag=total_rounds=4"),
  *("--flag=task_option.model=logistic_regression", "--pruner=median"),
  "--flag=rounds_per_evaluation=2",
  "--range=client_learning_rate=0.01:1:log",
)
TIMEOUT = 150

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("compiled_once")]


@pytest.fixture
def start(start_program, tmp_path, warm_python):
  """Returns a function that starts the sweep."""
  (tmp_path / "sweep.toml").write_text(SWEEP)

  def run(*arguments):
    log = tmp_path / "log.txt"
    with log.open("w") as output:
      process = start_program(
        [warm_python, "-m", "binaries.sweep", "--output_dir=out", *arguments],
        cwd=tmp_path,
        env=source_tree.environment(of_tests=False),
        stdout=output,
        stderr=output,
        # A process group of its own, as in a shell: Ctrl-C reaches all of it.
        start_new_session=True,
      )
    return process, log

  return run


@pytest.mark.long
def test_a_sweep_goes_on_after_an_interruption_and_a_failure(start, tmp_path):
  folder = tmp_path / "out"
  process, log = start(FILE, "--jobs=2")
  metrics = folder / GOOD / "metrics.csv"
  waiting.until(
    lambda: waiting.has_rounds(metrics, 3), process=process, log=log
  )
  os.killpg(process.pid, signal.SIGINT)
  assert process.wait(TIMEOUT) == 130
  *_, last = log.read_text().splitlines()
  assert last.startswith("Interrupted. 0 of 2 runs are finished in out, what")
  assert "Traceback" not in log.read_text()
  saved = metrics.read_text().count("\n") - 1
  assert 3 <= saved < 30

  process, log = start(FILE, "--validation_fraction=0")
  assert process.wait(TIMEOUT) == 1
  said = log.read_text()
  assert f"1/2 {GOOD}: accuracy " in said
  assert f"2/2 {BAD}: FAILED (status 2, " in said
  assert "--clients_per_round=50: the task has 5 clients" in said
  assert "1 of 2 runs failed, see above" in said
  (best,) = (line for line in said.splitlines() if line.startswith("Mean  "))
  assert best.split()[1:3] == ["1", "1"]

  (run,) = discovery.find([folder])
  assert run.is_finished
  assert run.name == "Mean"
  assert run.evaluations["round"].tolist() == [0, 30]
  assert run.rounds["round"].tolist() == list(range(1, 31))
  assert f"resuming after round {saved}." in (
    (folder / GOOD / "log.txt").read_text()
  )
  assert sorted(path.name for path in folder.iterdir()) == [
    f"{BAD}.log",
    GOOD,
    "sweep.json",
  ]

  process, log = start(FILE, "--dry_run")
  assert process.wait(TIMEOUT) == 0
  assert [line.split() for line in log.read_text().splitlines()] == [
    ["finished", f"out/{GOOD}"],
    ["new", f"out/{BAD}"],
    ["2", "runs:", "1", "finished,", "1", "new"],
  ]


@pytest.mark.long
def test_a_search_trains_what_its_record_says(start, tmp_path):
  folder = tmp_path / "out"
  process, log = start(*SEARCH)
  assert process.wait(TIMEOUT) == 0, log.read_text()
  output = log.read_text()
  assert output.startswith("5 clients are too few")
  assert "fedavg: 2 trials, 2 complete." in output
  assert "python -m binaries.train --task_option=num_clients=5" in output or (
    "python -m binaries.train --algorithm=fedavg" in output
  )
  assert "Worst 10 %*" in output

  found = search_trials.read_record(folder)
  (study,) = found.studies.values()
  trials = search_trials.with_outcomes(folder, found, study)
  assert [trial.outcome.state for trial in trials] == ["complete"] * 2
  for number, trial in enumerate(trials):
    again = optuna_study.suggest(
      study.name, study.space, found.settings, trials[:number]
    )
    assert dict(trial.settings) == again
  for run in discovery.find([folder]):
    assert run.rounds["round"].tolist() == [1, 2, 3, 4]
    assert run.spec.validation_fraction == 0.2
