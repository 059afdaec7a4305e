"""Tests of tff-fair-audit; the library's tests cover audits of models."""

import pytest

from binaries import audit
from tests.binaries import in_process

RESULTS = "client,n,correct\nnorth,40,10\nsouth,50,45\n"


program = in_process.program_of(
  audit, lambda folder: (folder / "results.csv").write_text(RESULTS)
)


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
  again = ("--results=results.csv", "--output_dir=new")
  assert program(*again).refusal.startswith(
    "audit: --output_dir=new/clients.csv: exists already"
  )
  assert program(*again, "--overwrite").status == 0


@pytest.mark.parametrize(
  ("words", "message"),
  [
    ([], "--model: is missing; give a model and a task, or results."),
    (["--model=m.keras"], "--task: is missing"),
    (["--results="], "--results: is empty"),
    (["--results=nowhere.csv"], "--results=nowhere.csv: No such file"),
    (["--results=bad.csv"], "--results=bad.csv: column 'n', row 1 (client"),
    (["--results=results.csv", "--seed=1"], "--seed: does not go with"),
    (["--results=results.csv", "--model=m"], "--model: does not go with"),
    (["--results=results.csv", "--output_dir=bad.csv"], "is not a folder"),
    (["--model=m", "--task=digits", "--task_option=x=1"], "--task_option: "),
    (["--model=nowhere", "--task=digits"], "--model=nowhere: there is no such"),
    (["--model=m", "--task=digits", "--split=half"], "--split="),
  ],
)
def test_mistakes_are_told_in_one_line(program, tmp_path, words, message):
  (tmp_path / "bad.csv").write_text("client,n,correct\na,0,0\n")
  assert message in program(*words).refusal
  assert not (tmp_path / "outputs").exists()
