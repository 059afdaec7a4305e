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
from tff_fair.experiments.runs import discovery
from tff_fair.files import csv_cells

FORMULAS = ("=1+1", "+A1", "@SUM(A1)", "-A1", "-", "\tx", "\r=1", "\n=1", "+1 ")
TEXTS = ("", "anna", "-5", "+0.5", "-1e3", "a=b", "'quoted'", "'", "007", "NA")


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_becomes_a_text(text):
  assert csv_cells.quote(text) == f"'{text}"


@pytest.mark.parametrize("text", TEXTS)
def test_other_texts_stay(text):
  assert csv_cells.quote(text) == text


@pytest.mark.parametrize("text", [*FORMULAS, *TEXTS])
def test_a_text_comes_back(text):
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
  # Only in the file.
  assert comparison_table.frame(built)["method"].tolist() == [label]


def test_names_of_clients_are_read_as_they_are(tmp_path):
  path = run_folders.make(tmp_path / "run")
  names = ["=1+1", "'anna"]
  cells = [csv_cells.quote(name) for name in names]
  rows = [f"{k},{cell}\n" for k, cell in enumerate(cells)]
  (path / "clients.csv").write_text("".join(["client_id,client\n", *rows]))
  assert discovery.open_run(path).client_names.tolist() == names
