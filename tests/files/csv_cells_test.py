import csv
import io

import pytest

from tests.experiments import run_folders
from tff_fair.experiments.analysis import (
  chosen_evaluations,
  compare,
  comparison_table,
)
from tff_fair.experiments.presenting import text_tables
from tff_fair.files import csv_cells

FORMULAS = ("=1+1", "+A1", "@SUM(A1)", "-A1", "-", "\tx", "\r=1", "\n=1", "+1 ")
TEXTS = ("", "anna", "-5", "+0.5", "-1e3", "a=b", "'quoted'", "'", "007", "NA")


@pytest.mark.parametrize("text", [*FORMULAS, *TEXTS])
def test_a_formula_becomes_a_text_and_comes_back(text):
  assert csv_cells.quote(text) == (f"'{text}" if text in FORMULAS else text)
  for quotes in ("", "'", "''"):
    whole = f"{quotes}{text}"
    assert csv_cells.unquote(csv_cells.quote(whole)) == whole


def test_a_table_for_spreadsheets_runs_no_label(tmp_path):
  label = '=HYPERLINK("http://x")'
  path = run_folders.make(tmp_path / "run", method=label)
  found = compare.find(path)
  built = compare.build(
    found, ["mean"], chosen_evaluations.EvaluationSelector()
  )
  (row,) = csv.DictReader(io.StringIO(text_tables.csv(built)))
  assert row["method"] == f"'{label}"
  # Labels are quoted only in the file.
  assert comparison_table.frame(built)["method"].tolist() == [label]
