"""Tests that a user's package that hides ours is reported in one line."""

import os
import subprocess
import sys

import pytest

from tests.source_tree import ROOT

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("kind", ["package", "folder", "module"])
@pytest.mark.parametrize(
  "arguments",
  [
    ("-c", "from tff_fair import experiments"),
    ("-m", "binaries.train", "--list"),
  ],
  ids=["python", "program"],
)
def test_a_package_that_hides_ours_is_named(tmp_path, kind, arguments):
  own = tmp_path / ("tasks.py" if kind == "module" else "tasks")
  if kind == "module":
    own.touch()
  else:
    own.mkdir()
  if kind == "package":
    (own / "__init__.py").touch()
  found = subprocess.run(
    [sys.executable, *arguments],
    cwd=tmp_path,
    env={**os.environ, "PYTHONPATH": str(ROOT)},
    capture_output=True,
    text=True,
    check=False,
  )
  if kind == "folder":
    # Python prefers our package, which has an __init__.py, wherever it is.
    assert str(own) not in found.stderr
    return
  assert found.returncode
  last = found.stderr.strip().splitlines()[-1]
  assert str(own) in last
  assert "tff-fair-train" in last
  if arguments[0] == "-m":
    assert found.stderr.count("\n") == 1
