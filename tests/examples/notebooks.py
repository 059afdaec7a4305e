"""Runs the notebooks of examples/; as a program, stores their outputs.

python -m tests.examples.notebooks
"""

import pathlib
import shutil
import tempfile

import nbclient
import nbformat

from tests import source_tree

FOLDER = source_tree.ROOT / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


def read(path: pathlib.Path) -> nbformat.NotebookNode:
  """Reads a notebook, and validates its format."""
  notebook = nbformat.read(path, as_version=4)
  nbformat.validate(notebook)
  return notebook


def code_cells(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
  return [cell for cell in notebook.cells if cell.cell_type == "code"]


def execute(
  notebook: nbformat.NotebookNode, folder: pathlib.Path, **environment: str
) -> None:
  """Runs a notebook in `folder`, next to clinics.csv; updates its outputs."""
  shutil.copy(FOLDER / "clinics.csv", folder)
  client = nbclient.NotebookClient(
    notebook,
    timeout=240,
    kernel_name="python3",
    # Outputs must not change from one execution to the next.
    record_timing=False,
    resources={"metadata": {"path": str(folder)}},
  )
  client.execute(env={**source_tree.environment(), **environment})
  # Otherwise the notebook would record the version of Python.
  notebook.metadata["language_info"] = {"name": "python"}


def main() -> None:
  for path in NOTEBOOKS:
    notebook = read(path)
    with tempfile.TemporaryDirectory() as folder:
      execute(notebook, pathlib.Path(folder))
    nbformat.write(notebook, path)


if __name__ == "__main__":
  main()
