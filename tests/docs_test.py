"""Tests that the files, tests and links in the documentation exist."""

import ast
import builtins
import re
from xml.etree import ElementTree

import pytest

from tests.source_tree import ROOT

pytestmark = pytest.mark.pure

README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
SWEEPS = {path.stem for path in (ROOT / "binaries" / "sweeps").glob("*.toml")}

_FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_LOOP = re.compile(r"for (\w+) in ([^;\n]+); do\n(.*?)done", re.DOTALL)
_LINK = re.compile(r"\[[^\[\]]*\]\(([^()\s]+)\)|\bsrc=\"([^\"]+)\"")
_FILE = re.compile(r"--file=([\w./]+)")
_FLAGFILE = re.compile(r"--flagfile=([\w./$]+)")
# A path in bold is a step of a guide, which may create the file.
_TEST = re.compile(r"(?<!\*\*)`(tests/[\w/.]+)`")
_NAMED_TESTS = re.compile(r"`(tests/[\w/.]+\.py)`: ((?:`[\w:]+`(?:, )?)+)")
_MODULE = re.compile(r"python -m ((?:binaries|benchmarks)\.\w+)")


def page_id(path):
  return str(path.relative_to(ROOT))


def commands(path):
  """Returns a page's text with the loops in its commands unrolled."""

  def unroll(loop):
    name, values, body = loop.groups()
    return "".join(body.replace(f"${name}", value) for value in values.split())

  return _LOOP.sub(unroll, path.read_text())


def prose(path):
  """Returns a page's text without code."""
  text = _FENCE.sub("", path.read_text())
  lines = [line for line in text.splitlines() if not line.startswith("    ")]
  return re.sub(r"`[^`\n]*`", "", "\n".join(lines))


def links(path):
  """Returns the links and pictures of a page that are not web addresses."""
  targets = (first or second for first, second in _LINK.findall(prose(path)))
  return [target for target in targets if "://" not in target]


def anchors(path):
  """Returns the anchors that headings have on a page, as GitHub makes them."""
  found: list[str] = []
  headings = re.findall(
    r"^#+ (.+)$", _FENCE.sub("", path.read_text()), re.MULTILINE
  )
  for heading in headings:
    words = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
    repeats = sum(
      re.fullmatch(rf"{words}(-\d+)?", name) is not None for name in found
    )
    found.append(f"{words}-{repeats}" if repeats else words)
  return found


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_files_in_commands_are_there(page):
  text = commands(page)
  # A name with a suffix is the path of a reader's own sweep file.
  sweeps = {name for name in _FILE.findall(text) if "." not in name}
  assert sweeps - {"NAME"} <= SWEEPS
  programs = [f"{name.replace('.', '/')}.py" for name in _MODULE.findall(text)]
  named = (*_FLAGFILE.findall(text), *programs)
  assert not [name for name in named if not (ROOT / name).is_file()]


# Studies of our own; docs/comparison.md has their tables.
_OF_NO_PAPER = {
  "attacks_and_defences",
  "first_look",
  "since_2021_digits",
  "since_2021_fashion_mnist",
  "since_2021_synthetic",
}


def test_reproduction_begins_with_every_sweep_file():
  page = (ROOT / "docs" / "reproduction.md").read_text()
  table = page[page.index("\n|") : page.index("\n## ")]
  assert set(_FILE.findall(table)) == SWEEPS - _OF_NO_PAPER


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_point_to_something(page):
  broken = []
  for link in links(page):
    name, _, anchor = link.partition("#")
    target = (page.parent / name) if name else page
    if not target.exists() or (anchor and anchor not in anchors(target)):
      broken.append(link)
  assert not broken


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_no_heading_stands_twice(page):
  headings = re.findall(
    r"^#+ .+$", _FENCE.sub("", page.read_text()), re.MULTILINE
  )
  assert len(headings) == len(set(headings))


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_tests_in_pages_are_there(page):
  text = page.read_text()
  missing = [path for path in _TEST.findall(text) if not (ROOT / path).exists()]
  for path, names in _NAMED_TESTS.findall(text):
    if path not in missing:
      code = (ROOT / path).read_text()
      missing += [
        name
        for name in re.findall(r"\w+", names)
        if not re.search(rf"(def|class) {name}\b", code)
      ]
  assert not missing


def test_the_map_of_the_folder_names_all_its_pages():
  index = ROOT / "docs" / "index.md"
  pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {index.name}
  assert pages <= {link.partition("#")[0] for link in links(index)}


@pytest.mark.parametrize(
  ("page", "most"), [("docs/which_method.md", 60), ("README.md", 120)]
)
def test_a_page_is_short(page, most):
  assert len((ROOT / page).read_text().splitlines()) <= most


def test_readme_has_a_small_picture_that_stands_alone():
  names = [name for name in links(README) if name.endswith((".svg", ".png"))]
  assert names
  for picture in map(ROOT.joinpath, names):
    content = picture.read_bytes()
    assert len(content) < 100_000
    if picture.suffix == ".svg":
      ElementTree.fromstring(content)
      addresses = re.findall(rb"(?:href|src)=|url\(|@import", content)
      assert not addresses


@pytest.mark.parametrize(
  "block",
  [
    code
    for kind, code in _FENCE.findall(README.read_text())
    if kind == "python"
  ],
  ids=lambda code: code.split("\n", 1)[0],
)
def test_readme_snippets_define_what_they_use(block):
  nodes = list(ast.walk(ast.parse(block)))
  names = [node for node in nodes if isinstance(node, ast.Name)]
  defined = set(dir(builtins))
  defined |= {n.id for n in names if isinstance(n.ctx, ast.Store)}
  for node in nodes:
    if isinstance(node, ast.Import | ast.ImportFrom):
      defined |= {alias.asname or alias.name for alias in node.names}
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
      defined.add(node.name)
    elif isinstance(node, ast.arg):
      defined.add(node.arg)
  used = {n.id for n in names if isinstance(n.ctx, ast.Load)}
  assert used <= defined
