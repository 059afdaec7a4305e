"""Builds the documents' site, and checks its links and its API pages."""

import html
import html.parser
import importlib.util
import os
import subprocess
import sys
import urllib.parse

import griffe
import pytest

from tests.source_tree import ROOT

pytestmark = pytest.mark.program

# What a browser loads by itself.
_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src"}


class Page(html.parser.HTMLParser):
  """What a page of the site links to, loads, and can be linked by."""

  def __init__(self, path):
    super().__init__()
    self.links, self.loaded, self.anchors = [], [], {""}
    self.feed(path.read_text())

  def handle_starttag(self, tag, attrs):
    values = dict(attrs)
    self.anchors.update(filter(None, (values.get("id"), values.get("name"))))
    if tag == "a" and values.get("href"):
      self.links.append(values["href"])
    if tag in _LOADED and values.get(_LOADED[tag]):
      self.loaded.append(values[_LOADED[tag]])


def target_of(folder, path, link):
  """Returns the file that a link of a page leads to."""
  name = urllib.parse.unquote(urllib.parse.urlsplit(link).path)
  if name.startswith("/"):
    target = folder / name.lstrip("/")
  else:
    target = path.parent / name if name else path
  target = target.resolve()
  return target / "index.html" if target.is_dir() else target


def is_external(link):
  return bool(urllib.parse.urlsplit(link).scheme) or link.startswith("//")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
  folder = tmp_path_factory.mktemp("site").resolve()
  unreachable = "http://127.0.0.1:9"  # The site is built offline.
  environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
  environment |= {f"{kind}_proxy": unreachable for kind in ("http", "https")}
  done = subprocess.run(
    [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", folder],
    cwd=ROOT,
    env=environment,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stdout
  return folder


@pytest.fixture(scope="module")
def pages(site):
  return {path: Page(path) for path in site.rglob("*.html")}


@pytest.fixture(scope="module")
def hook():
  spec = importlib.util.spec_from_file_location(
    "site_pages", ROOT / "docs" / "site" / "pages.py"
  )
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)
  return module


@pytest.mark.long
def test_the_site_has_all_documents(site):
  assert (site / "index.html").is_file()
  assert (site / "docs" / "index.html").is_file()
  documents = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
  built = {path.parent.name for path in site.glob("docs/*/index.html")}
  assert documents <= built


@pytest.mark.long
def test_all_internal_links_lead_somewhere(site, pages):
  broken = []
  for path, page in pages.items():
    for link in [*page.links, *page.loaded]:
      if is_external(link):
        continue
      target = target_of(site, path, link)
      anchor = urllib.parse.unquote(urllib.parse.urlsplit(link).fragment)
      known = pages[target].anchors if target in pages else {""}
      if not target.is_file() or anchor not in known:
        broken.append(f"{path.relative_to(site)}: {link}")
  assert not broken


@pytest.mark.long
def test_nothing_is_loaded_from_the_network(pages):
  assert not [
    x for page in pages.values() for x in page.loaded if is_external(x)
  ]


@pytest.mark.long
def test_formulas_are_drawn(site):
  methods = (site / "docs" / "methods" / "index.html").read_text()
  formulas = (ROOT / "docs" / "methods.md").read_text().count("```math")
  assert methods.count('<svg class="formula"') == formulas > 10


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
