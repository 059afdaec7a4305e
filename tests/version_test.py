"""The version is that of the project, wherever the package comes from."""

import shutil
import subprocess
import sys
import tomllib

import pytest

from tests.source_tree import ROOT

pytestmark = pytest.mark.pure


def printed(folder):
  """What a program prints that finds the package in a folder."""
  return subprocess.run(
    [sys.executable, "-c", "import tff_fair; print(tff_fair.__version__)"],
    cwd=folder,
    capture_output=True,
    text=True,
    timeout=60,
    check=True,
  ).stdout


def test_a_source_tree_knows_its_version():
  project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
  assert printed(ROOT) == f"{project['version']}\n"


def test_an_installed_package_knows_its_version(tmp_path):
  shutil.copytree(
    ROOT / "tff_fair",
    tmp_path / "tff_fair",
    ignore=shutil.ignore_patterns("__pycache__"),
  )
  info = tmp_path / "tff_fair-1.2.3.dist-info"
  info.mkdir()
  (info / "METADATA").write_text("Name: tff-fair\nVersion: 1.2.3\n")
  assert printed(tmp_path) == "1.2.3\n"
