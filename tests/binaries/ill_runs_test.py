"""Tests that each program which shows a run says what went wrong in the run."""

import pathlib

import numpy as np
import pytest

from binaries import compare, export, report, sweep
from tests.binaries import in_process
from tests.cases import one_of_each
from tff_fair import experiments

pytestmark = pytest.mark.usefixtures("compiled_here", "unpainted")

RUN = (
  *in_process.OF_ROWS,
  "--total_rounds=3",
  "--rounds_per_evaluation=1",
)
SWEEP = f"""{in_process.SWEEP_OF_ROWS.format(rounds=3)}
grid = {{client_learning_rate = [0.01, 30.0]}}
"""


def write(y, x=None):
  random = np.random.default_rng(0)
  number = len(y)
  x = random.normal(size=[number, 3]) if x is None else x
  np.savez(
    "rows.npz",
    x=x.astype(np.float32),
    y=y,
    client=np.arange(number) // 10,
    split=np.where(np.arange(number) % 2, "test", "train"),
  )


def numbers(count=40):
  return np.random.default_rng(1).normal(size=count)


def trained(program, *flags):
  """Trains; returns the run's diagnosis by kind, and the text on stderr."""
  outcome = program(*RUN, *flags)
  assert outcome.status in (0, None)
  run = experiments.open_run("run")
  return {found.kind: found for found in run.diagnosis}, outcome.stderr


@pytest.mark.parametrize("rate", one_of_each([2.0, 1e6]))
def test_a_regression_that_diverges(program, rate):
  write(numbers())
  found, told = trained(program, f"--client_learning_rate={rate}")
  (kind,) = found
  assert kind == ("above_initial" if rate == 2 else "not_finite")
  (line,) = [ln for ln in told.splitlines() if "training diverged" in ln]
  assert f"client_learning_rate ({rate:g} here)" in line
  # Each program that shows the run shows the diagnosis.
  for program_, words in ((compare, ["run"]), (report, ["run"])):
    outcome = in_process.run(program_, *words)
    assert outcome.status in (0, None)
    page = pathlib.Path("report.html")
    shown = page.read_text() if program_ is report else outcome.stdout
    assert "training diverged" in shown
    assert f"({rate:g} here)" in " ".join(shown.split())
  # A comparison at round 0, before the divergence, does not mention it.
  first = in_process.run(compare, "run", "--round=0").stdout
  assert "diverged" not in first


@pytest.mark.long
@pytest.mark.parametrize("rate", one_of_each([2.0, 0.01]))
def test_a_certificate_is_of_runs_that_end_well(program, rate):
  write(numbers())
  outcome = program(*RUN, f"--client_learning_rate={rate}", "--certificate")
  assert outcome.status in (0, None)
  exported = in_process.run(export, "run", "--output=model.keras")
  assert exported.status in (0, None)
  card = pathlib.Path("model_card.md").read_text()
  for text in (outcome.stdout, card):
    assert ("Pareto stationarity" in text) == (rate < 1)
    assert ("training diverged" in text) == (rate > 1)


def test_r2_over_all_examples(program):
  y = 1000 + 5 * numbers()
  write(y)
  trained(program, "--client_learning_rate=1e-9")
  run = experiments.open_run("run")
  rows = run.last_evaluation
  error = (rows["num_examples"] * rows["rmse"] ** 2).sum()
  test = y[np.arange(40) % 2 == 1]
  expected = 1 - error / ((test - test.mean()) ** 2).sum()
  pooled = run.evaluations["r2_pooled"].iloc[-1]
  np.testing.assert_allclose(pooled, expected, rtol=1e-4)


@pytest.mark.parametrize("labels", one_of_each(["classes", "names", "number"]))
def test_one_prediction_for_all(program, labels):
  classes = np.repeat([0, 1, 2, 1], 10)
  names = np.array(["ape", "bee", "cow"])
  y = {"classes": classes, "names": names[classes], "number": numbers()}[labels]
  write(y, np.zeros([40, 3]))
  found, told = trained(program, "--client_learning_rate=0.1")
  constant = found["constant_prediction"]
  assert constant.round_num == 3
  assert "for all test examples" in told
  table = experiments.open_run("run").evaluations
  column = table[f"constant_prediction/{constant.measure}"]
  assert column.notna().all()
  if labels == "names":
    assert f"“{names[int(constant.value)]}”" in told
  if labels != "number":
    accuracy = (classes[1::2] == constant.value).mean()
    mean = table["accuracy_weighted"].iloc[-1]
    np.testing.assert_allclose(mean, accuracy, rtol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("score", one_of_each(["accuracy", "auc"]))
def test_a_rare_class_that_is_ranked_well(program, score):
  y = np.arange(40) // 2 % 5 == 0
  x = np.random.default_rng(0).normal(size=[40, 3]) + y[:, np.newaxis]
  write(y.astype(int), 0.01 * x)
  found, _ = trained(program, "--client_learning_rate=1", f"--score={score}")
  # All examples get the common class, but the rare ones rank highest.
  assert ("constant_prediction" in found) == (score == "accuracy")


@pytest.mark.long
def test_a_sweep_says_it_of_a_run_and_of_the_best_setting(program):
  write(numbers())
  pathlib.Path("sweep.toml").write_text(SWEEP)
  words = ("--file=sweep.toml", "--output_dir=out")
  outcome = in_process.run(sweep, *words)
  assert outcome.status in (0, None)
  # The best setting has no diagnosis.
  assert "(30 here)" in outcome.stderr
  assert "here)" not in outcome.stdout
  (line,) = [ln for ln in outcome.stdout.splitlines() if "diverged: " in ln]
  assert "client_learning_rate=30" in line
  good = "0.01, "
  pathlib.Path("sweep.toml").write_text(SWEEP.replace(good, ""))
  outcome = in_process.run(sweep, words[0], "--output_dir=bad")
  assert "(30 here)" in outcome.stdout
  del program
