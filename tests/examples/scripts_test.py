"""Runs each script of examples/ as a user does, in a folder of its own."""

import os
import re
import subprocess
import sys

import pytest

from tests import marks, source_tree, waiting

FOLDER = source_tree.ROOT / "examples"
# These are not scripts: flags name them, as --task=own_task.py:hospitals.
NAMED = ("my_method", "own_model", "own_task")
SCRIPTS = sorted(p for p in FOLDER.glob("*.py") if p.stem not in NAMED)
TIMEOUT = 280.0  # Seconds; far more than any script needs.

# Flags that make a script quick, and its expected output.
CASES = {
  "choose_and_compare": (
    ["--output_dir=results", "--seeds=2", "--total_rounds=5"],
    r"(fedavg-client_learning_rate=0\.[12]-seed=0: [\d.]+\n){2}"
    r"adafed-gamma=(0\.5|1)-seed=0: [\d.]+\n[\s\S]*"
    r"AdaFed - \(FedAvg(, equal weights)?\), worst tenth: [+-][\d.]+ "
    r"\[[+-][\d.]+, [+-][\d.]+\]\n",
  ),
  "first_fair_model": (
    ["--output_dir=results", "--total_rounds=2"],
    r"[\s\S]*FedAvg: mean [\d.]+%, .* [\d.]+%\n"
    r"FedAvg, equal weights: mean [\d.]+%, .* [\d.]+%\n"
    r"FedMGDA\+: mean [\d.]+%, .* [\d.]+%\n"
    r"The report is results/report.html, the model results/fair.keras.\n",
  ),
  "own_client_work": (
    [],
    r"t=0\.0: mean (?P<mean>[\d.]+)%, worst 10% (?P<worst>[\d.]+)%\n"
    r"t=2\.0: mean [\d.]+%, worst 10% (?P<fair_worst>[\d.]+)%\n",
  ),
  "own_data": (
    [],
    r"fedavg, num_examples: A [\d.]+% B [\d.]+% C [\d.]+%\n"
    r"fedavg, uniform: A [\d.]+% B [\d.]+% C (?P<worst>[\d.]+)%\n"
    r"fedmgda_plus, uniform: A [\d.]+% B [\d.]+% C (?P<fair_worst>[\d.]+)%\n",
  ),
  "stock_tff": (
    [],
    r"FedAvg: mean [\d.]+%, worst client (?P<worst>[\d.]+)%\n"
    r"FedAvg, equal weights: mean [\d.]+%, "
    r"worst client (?P<fair_worst>[\d.]+)%\n"
    r"FedMGDA\+: mean [\d.]+%, worst client [\d.]+%\n",
  ),
  "tff_program": (
    ["--output_dir=results", "--rounds=2"],
    r"round 1: [\d.]+%\nround 2: [\d.]+%\nround 2: [\d.]+%\n",
  ),
}


def test_every_script_has_a_case():
  assert [script.stem for script in SCRIPTS] == sorted(CASES)


@pytest.mark.parametrize(
  "script", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem
)
def test_a_script_is_short(script):
  assert len(script.read_text().splitlines()) <= 60


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("compiled_once")
@pytest.mark.parametrize("name", CASES)
def test_a_script_prints_what_it_finds_and_leaves_nothing_behind(
  name, tmp_path
):
  flags, expected = CASES[name]
  mark = str(tmp_path)
  environment = source_tree.environment() | {marks.VARIABLE: mark}
  environment.pop("TF_CPP_MIN_LOG_LEVEL", None)  # Users do not set it.
  done = subprocess.run(
    [sys.executable, str(FOLDER / f"{name}.py"), *flags],
    cwd=tmp_path,
    env=environment,
    capture_output=True,
    text=True,
    timeout=TIMEOUT,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  found = re.fullmatch(expected, done.stdout)
  assert found, done.stdout
  numbers = found.groupdict()
  if numbers:
    assert float(numbers["fair_worst"]) > float(numbers["worst"])
  waiting.until(lambda: not marks.commands(mark), seconds=10.0)
  if flags:
    assert os.listdir(tmp_path) == ["results"]
  else:
    assert os.listdir(tmp_path) == []
    assert done.stderr == ""
