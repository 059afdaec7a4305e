"""Tests of CITATION.cff, by which others cite this software."""

import tomllib

import pytest
import yaml

from tests.source_tree import ROOT

pytestmark = pytest.mark.pure

CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_it_has_what_the_format_requires():
  required = {"cff-version", "message", "title", "authors"}
  assert required <= set(CITATION)
  assert CITATION["type"] == "software"
  assert CITATION["title"].startswith(PROJECT["name"].replace("-", "_"))


def test_its_version_is_that_of_the_project():
  assert CITATION["version"] == PROJECT["version"]


def test_it_names_the_authors_as_a_whole_alone():
  assert CITATION["authors"] == [{"name": "The tff_fair authors"}]
