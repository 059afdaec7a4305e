"""The version and the citation are those of the project."""

import shutil
import subprocess
import sys
import tomllib

import pytest
import yaml

from tests.source_tree import ROOT

pytestmark = pytest.mark.pure

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


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
  assert printed(ROOT) == f"{PROJECT['version']}\n"


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


def test_the_citation_has_what_its_format_requires_and_no_person():
  citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
  assert {"cff-version", "message", "title", "authors"} <= set(citation)
  assert citation["type"] == "software"
  assert citation["title"].startswith(PROJECT["name"].replace("-", "_"))
  assert citation["version"] == PROJECT["version"]
  assert citation["authors"] == [{"name": "The tff_fair authors"}]
