"""Tests of the program that exports models."""

import pytest

from binaries import export
from tests.binaries import in_process
from tests.experiments import run_folders


def prepare(folder):
  for name in ("a", "b"):
    run_folders.make(folder / "runs" / name)
  (folder / "taken.keras").write_text("mine")


program = in_process.program_of(export, prepare)


@pytest.mark.parametrize(
  ("words", "message"),
  [
    (["--output=m.keras"], "RUN: expected the folder of one run, found 0"),
    (["runs", "--output=m.keras"], "runs: holds 2 runs; name one"),
    (["nowhere", "--output=m.keras"], "nowhere: there is no such folder"),
    (["runs/a"], "--output: is missing"),
    (["runs/a", "--output=~nosuchuser/x"], "--output=~nosuchuser/x: there is"),
    (["runs/a", "--output=taken.keras"], "--output: taken.keras: exists alre"),
    (["runs/a", "--output=m.keras"], "runs/a/checkpoints: holds no state"),
    (["runs/a", "--output=m.keras", "--best"], "runs/a/best_checkpoint: holds"),
    (["runs/a", "--output=m.h5", "--format=keras"], "--output=m.h5: is not"),
    (["runs/a", "--output=m.keras", "--format=h5"], "--format=h5: "),
    (["", "--output=m.keras"], "RUN: is empty"),
    (["~nosuchuser/x", "--output=m.keras"], "RUN=~nosuchuser/x: there is no"),
    (["runs/a", "--output=/"], "--output: has no name"),
    (["runs/a", "--output=m.H5"], "--output=m.H5: has no known format; name"),
    (["runs/a", "--output=m.v2"], "runs/a/checkpoints: holds no state"),
    (
      ["runs/a", "--output=m.xyz", "--format=savedmodel"],
      "runs/a/checkpoints: holds no state",
    ),
    (
      ["runs/a", "--output=m", "--client=x", "--all_clients"],
      "--all_clients: leave either it or client out",
    ),
    (
      ["runs/a", "--output=m", "--form=mapreduce", "--baselines=runs/b"],
      "--baselines: applies to models, but --form writes a round",
    ),
    (["runs/a", "--output=m.keras", "--baselines=no"], "no: there is no such"),
    (["runs/a", "--output=runs", "--form=mapreduce"], "--output: runs: exists"),
  ],
)
def test_a_mistake_is_one_line(program, tmp_path, words, message):
  assert program(*words).refusal.startswith(f"export: {message}")
  assert sorted(p.name for p in tmp_path.iterdir()) == ["runs", "taken.keras"]
  assert (tmp_path / "taken.keras").read_text() == "mine"


@pytest.mark.parametrize("way", ["two_phase", "secure"])
def test_a_round_of_dependent_sums_has_no_form(program, tmp_path, way):
  run_folders.make(tmp_path / "two", algorithm="semi_vred", aggregation=way)
  told = program("two", "--output=m", "--form=mapreduce").refusal
  assert told.startswith("export: --form=mapreduce: a round of semi_vred with ")
  assert not (tmp_path / "m").exists()
