"""Tests that a user's package that hides ours is reported in one line."""

import os
import subprocess
import sys

import pytest

from tests.source_tree import ROOT

pytestmark = pytest.mark.pure


IMPORT = ("-c", "from tff_fair import experiments")


def run(folder, *arguments):
  return subprocess.run(
    [sys.executable, *arguments],
    cwd=folder,
    env={**os.environ, "PYTHONPATH": str(ROOT)},
    capture_output=True,
    text=True,
    check=False,
  )


@pytest.mark.parametrize("kind", ["package", "module"])
@pytest.mark.parametrize(
  "arguments",
  [IMPORT, ("-m", "binaries.train", "--list")],
  ids=["python", "program"],
)
def test_a_package_that_hides_ours_is_named(tmp_path, kind, arguments):
  own = tmp_path / ("tasks.py" if kind == "module" else "tasks")
  if kind == "module":
    own.touch()
  else:
    own.mkdir()
    (own / "__init__.py").touch()
  found = run(tmp_path, *arguments)
  assert found.returncode
  last = found.stderr.strip().splitlines()[-1]
  assert str(own) in last
  assert "tff-fair-train" in last
  if arguments[0] == "-m":
    assert found.stderr.count("\n") == 1


def test_a_folder_without_init_hides_nothing(tmp_path):
  # Python prefers our package, which has an __init__.py, wherever it is.
  (tmp_path / "tasks").mkdir()
  found = run(tmp_path, *IMPORT)
  assert (found.returncode, found.stderr) == (0, "")
