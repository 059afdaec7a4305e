"""Tests of the program that audits; of models, the library has tests."""

import functools

import pytest

from binaries import audit
from tests.binaries import in_process

RESULTS = "client,n,correct\nnorth,40,10\nsouth,50,45\n"


@pytest.fixture
def program(tmp_path, monkeypatch):
  """Runs the program in this process, in a folder with results.csv."""
  monkeypatch.chdir(tmp_path)
  (tmp_path / "results.csv").write_text(RESULTS)

  return functools.partial(in_process.run, audit)


def test_results_become_tables_and_a_page(program, tmp_path):
  status, out, err = program("--results=results.csv", "--output_dir=new")
  assert status == 0
  assert "Worst off is north" in out
  assert "new/index.html: written" in err
  assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [
    "clients.csv",
    "index.html",
    "summary.json",
  ]
  status, _, err = program("--results=results.csv", "--output_dir=new")
  assert (status, err.count("\n")) == (2, 1)
  assert err.startswith("audit: --output_dir=new: holds clients.csv already")
  again = ("--results=results.csv", "--output_dir=new", "--overwrite")
  assert program(*again)[0] == 0


@pytest.mark.parametrize(
  ("words", "message"),
  [
    ([], "--model: is missing; give a --model and a --task, or --results."),
    (["--model=m.keras"], "--task: is missing"),
    (["--results="], "--results: is empty"),
    (["--results=nowhere.csv"], "--results=nowhere.csv: No such file"),
    (["--results=bad.csv"], "--results=bad.csv: column 'n', row 1 (client"),
    (["--results=results.csv", "--seed=1"], "--seed: does not go with"),
    (["--results=results.csv", "--model=m"], "--model: does not go with"),
    (["--results=results.csv", "--output_dir=bad.csv"], "is no folder"),
    (["--model=m", "--task=digits", "--task_option=x=1"], "--task_option: "),
    (["--model=nowhere", "--task=digits"], "--model=nowhere: there is no such"),
    (["--model=m", "--task=digits", "--split=half"], "--split="),
  ],
)
def test_mistakes_are_told_in_one_line(program, tmp_path, words, message):
  (tmp_path / "bad.csv").write_text("client,n,correct\na,0,0\n")
  status, out, err = program(*words)
  assert (status, out) == (2, "")
  assert err.count("\n") == 1
  assert err.startswith("audit: ")
  assert message in err
  assert not (tmp_path / "outputs").exists()
