"""Builds the site of the documents, and checks its API pages."""

import importlib.util
import os
import subprocess
import sys

import griffe
import pytest

from tests.source_tree import ROOT

pytestmark = pytest.mark.program


@pytest.mark.long
def test_the_site_is_built_offline_and_without_a_warning(tmp_path):
  unreachable = "http://127.0.0.1:9"
  environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
  environment |= {f"{kind}_proxy": unreachable for kind in ("http", "https")}
  done = subprocess.run(
    [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", tmp_path],
    cwd=ROOT,
    env=environment,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stdout
  methods = (tmp_path / "docs" / "methods" / "index.html").read_text()
  formulas = (ROOT / "docs" / "methods.md").read_text().count("```math")
  assert methods.count('<svg class="formula"') == formulas > 10


@pytest.fixture(scope="module")
def hook():
  spec = importlib.util.spec_from_file_location(
    "site_pages", ROOT / "docs" / "site" / "pages.py"
  )
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


def documented(module):
  """Yields the public classes and functions of a module, and their methods."""
  for member in module.members.values():
    if not member.is_public or member.name.startswith("__"):
      continue
    if member.is_attribute or member.is_module:
      continue
    target = member.final_target if member.is_alias else member
    yield target
    if target.is_class:
      yield from documented(target)


def test_all_that_the_api_pages_show_has_a_docstring(hook):
  loader = griffe.GriffeLoader(search_paths=[ROOT])
  for package in ("tff_fair", "tasks"):
    loader.load(package)
  loader.resolve_aliases(implicit=True)
  names = [*hook.MODULES, *hook.method_modules()]
  modules = [loader.modules_collection[name] for name in names]
  found = [x for module in modules for x in [module, *documented(module)]]
  assert len(found) > 200
  assert not [x.path for x in found if not x.has_docstring]
