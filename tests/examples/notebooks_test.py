"""Runs the notebooks of examples/, and checks their stored outputs."""

import base64
import os
import pathlib
import re

import pytest

from tests import marks, waiting
from tests.examples import notebooks
from tests.examples.notebooks import NOTEBOOKS

HOSPITALS = pathlib.Path(
  *(os.environ.get("FAIR_DATA_DIR", ""), "natural"),
  "heart_disease_4hospitals.tar.gz",
)
# Replacements that make a notebook quick.
SHORTER = (
  ("total_rounds=60", "total_rounds=2"),
  ("total_rounds=100", "total_rounds=2"),
)


def by_name(path):
  return path.stem


def outputs(notebook):
  return [
    output for cell in notebooks.code_cells(notebook) for output in cell.outputs
  ]


def shown(notebook):
  """Returns all text that a notebook shows, and its pictures."""
  texts, pictures = [], []
  for output in outputs(notebook):
    texts.append(output.get("text", ""))
    data = output.get("data", {})
    texts += [v for kind, v in data.items() if kind.startswith("text/")]
    pictures += [base64.b64decode(data[k]) for k in ("image/png",) if k in data]
  return "\n".join(texts), pictures


def test_there_are_four_notebooks():
  assert list(map(by_name, NOTEBOOKS)) == [
    *("first_fair_model", "four_hospitals", "own_method"),
    "table_to_model_card",
  ]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=by_name)
def test_a_notebook_keeps_its_outputs(path):
  notebook = notebooks.read(path)
  cells = notebooks.code_cells(notebook)
  numbers = [cell.execution_count for cell in cells]
  assert numbers == list(range(1, len(cells) + 1))
  assert not [o for o in outputs(notebook) if o.output_type == "error"]
  assert not [o for o in outputs(notebook) if o.get("name") == "stderr"]
  assert all(cell.outputs for cell in cells)
  # The stored file is small, and shows nothing of the machine that ran it.
  content = path.read_text()
  assert len(content) < 300_000
  text, pictures = shown(notebook)
  assert pictures
  for picture in pictures:
    assert picture.startswith(b"\x89PNG")
  assert not re.search(r"(^|[\s'\"(])/\w+/", text)
  assert "iopub" not in content


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.usefixtures("compiled_once")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=by_name)
def test_a_notebook_runs(path, tmp_path):
  if path.stem == "four_hospitals" and not HOSPITALS.is_file():
    pytest.skip(f"there is no file {HOSPITALS}, of FAIR_DATA_DIR")
  notebook = notebooks.read(path)
  kept = len(outputs(notebook))
  for cell in notebooks.code_cells(notebook):
    for long, short in SHORTER:
      cell.source = cell.source.replace(long, short)
    cell.outputs = []
  # Fails if a cell raises.
  notebooks.execute(notebook, tmp_path, **{marks.VARIABLE: str(tmp_path)})
  assert len(outputs(notebook)) == kept
  waiting.until(lambda: not marks.commands(str(tmp_path)), seconds=10.0)
