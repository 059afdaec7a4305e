"""Tests of tff-fair-ceiling; the library's tests cover the ceilings."""

import pytest

from binaries import ceiling
from tests.binaries import in_process

program = in_process.program_of(ceiling)


def test_a_task_has_a_ceiling_and_files(program, tmp_path):
  status, out, _ = program(
    "--task=digits",
    "--task_option=num_clients=3",
    "--model=linear",
    "--radius=1",
    "--output=page.html",
    "--output=all.json",
  )
  assert status == 0
  assert "worst 10 %" in out
  assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
  assert '"least"' in (tmp_path / "all.json").read_text()


@pytest.mark.parametrize(
  ("words", "message"),
  [
    ([], "RUN: expected folders of runs, or --task"),
    (["run", "--task=digits"], "RUN: expected folders of runs, or --task"),
    (["run", "--seed=1"], "--seed: goes with --task"),
    (["nowhere"], "nowhere"),
    (["--task=digits", "--share=0"], "--share=0"),
    (["--task=digits", "--output=page.txt"], "--output=page.txt"),
  ],
)
def test_refuses_in_one_line(program, words, message):
  assert message in program(*words).refusal
