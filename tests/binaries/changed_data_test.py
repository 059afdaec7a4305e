"""Tests that runs, sweeps and comparisons notice when data have changed."""

import os
import pathlib

import numpy as np
import pytest

from binaries import sweep
from tests.binaries import in_process
from tff_fair import experiments

pytestmark = pytest.mark.usefixtures("compiled_here", "unpainted")

RUN = in_process.OF_ROWS
SWEEP = in_process.SWEEP_OF_ROWS.format(rounds=1)


def write(**changes):
  random = np.random.default_rng(0)
  arrays = {
    "x": random.normal(size=[24, 3]).astype(np.float32),
    "y": np.arange(24) % 2,
    "client": np.arange(24) // 8,
  }
  np.savez("rows.npz", **{**arrays, **changes})


def content():
  files = filter(pathlib.Path.is_file, pathlib.Path("run").iterdir())
  return {path: path.read_bytes() for path in files}


def test_a_run_goes_on_with_its_data_alone(program):
  write()
  assert program(*RUN, "--total_rounds=1").status in (0, None)
  os.utime("rows.npz")  # A new timestamp alone is not a change.
  assert program(*RUN, "--total_rounds=2").status in (0, None)
  before = content()
  write(y=np.where(np.arange(24) % 3, np.arange(24) % 2, 1 - np.arange(24) % 2))
  refused = program(*RUN, "--total_rounds=3").refusal
  assert refused.startswith("train: --output_dir=run: ")
  assert "rows.npz has changed" in refused
  assert len(refused) <= 300
  assert content() == before


@pytest.mark.long
def test_a_run_goes_on_with_the_split_file_that_it_wrote(program):
  flags = (
    "--task=digits",
    "--task_option=split_file=split.npz",
    "--algorithm=fedavg",
    "--clients_per_round=2",
    "--output_dir=run",
  )
  assert program(*flags, "--total_rounds=1").status in (0, None)
  assert program(*flags, "--total_rounds=2").status in (0, None)
  assert len(experiments.open_run("run").rounds) == 2


@pytest.mark.long
def test_a_sweep_and_comparisons_distinguish_data(program):
  write()
  pathlib.Path("sweep.toml").write_text(SWEEP)
  words = ("--file=sweep.toml", "--output_dir=out")
  assert in_process.run(sweep, *words).status in (0, None)
  assert in_process.run(sweep, *words).status in (0, None)
  write(y=1 - np.arange(24) % 2)
  refused = in_process.run(sweep, *words).refusal
  assert "rows.npz" in refused
  # Runs that differ only in their data are compared as two methods.
  assert program(*RUN, "--total_rounds=1").status in (0, None)
  (swept,) = pathlib.Path("out").glob("*/config.json")
  table = experiments.compare([swept.parent, "run"])
  assert len(table) == 2
  assert all(" data=" in label for label in table["method"])
