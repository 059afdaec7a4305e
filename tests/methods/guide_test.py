"""Follows the guide "Adding a method" in a copy of the tree.

A place in the guide is a path in bold, alone for a new file, or followed by
"in `NAME`" for an entry of a table, or "above `NAME`" for code before it.
"""

import ast
import os
import re
import shutil
import subprocess
import sys

import pytest

from tests import source_tree

pytestmark = pytest.mark.program

GUIDE = (source_tree.ROOT / "docs/methods.md").read_text()
SECTION = GUIDE.partition("\n## Adding a method\n")[2].partition("\n## ")[0]
PLACE = re.compile(
  r"\*\*`(?P<path>[\w/.]+)`\*\*(?:,\s(?P<where>in|above)\s`(?P<name>\w+)`)?"
  r"(?:(?!\*\*).)*?```python\n(?P<code>.*?)```",
  re.DOTALL,
)
TESTS = ("tests/methods", "tests/layers_test.py")
# A test runs for the new method if its name is in the name of the case.
METHOD = "boosted"
QUIET = ("-q", "-rA", "-p", "no:xdist", "-p", "no:cacheprovider")


def insert(source, where, name, code):
  """Returns a source with code above an assignment, or at its end within."""
  lines = source.splitlines(keepends=True)
  (statement,) = (
    node
    for node in ast.parse(source).body
    if isinstance(node, ast.Assign | ast.AnnAssign)
    for target in [
      node.targets[0] if isinstance(node, ast.Assign) else node.target
    ]
    if isinstance(target, ast.Name) and target.id == name
  )
  if where == "above":
    lines.insert(statement.lineno - 1, f"{code}\n\n")
  else:
    assert statement.end_lineno is not None
    lines.insert(statement.end_lineno - 1, code)
  return "".join(lines)


def follow(section, root):
  """Does in a tree what the guide says; returns the paths it touches."""
  places = list(PLACE.finditer(section))
  for place in places:
    path = root / place["path"]
    if place["where"] is None:
      assert not path.exists(), path
      path.write_text(place["code"])
    else:
      source = path.read_text()
      path.write_text(
        insert(source, place["where"], place["name"], place["code"])
      )
  return [place["path"] for place in places]


@pytest.fixture
def tree(tmp_path):
  ignored = shutil.ignore_patterns("__pycache__")
  for folder in ("tff_fair", "tests", "docs"):
    shutil.copytree(
      source_tree.ROOT / folder, tmp_path / folder, ignore=ignored
    )
  shutil.copy(source_tree.ROOT / "pyproject.toml", tmp_path)
  return tmp_path


def run_tests(tree, *tests, chosen=METHOD):
  """Runs tests of the new method; returns exit code and output."""
  environment = {k: v for k, v in os.environ.items() if "PYTEST" not in k}
  environment.pop("PYTHONPATH", None)
  done = subprocess.run(
    [sys.executable, "-m", "pytest", *QUIET, "-k", chosen, *tests],
    cwd=tree,
    env=environment,
    capture_output=True,
    text=True,
    check=False,
  )
  return done.returncode, done.stdout


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_steps_of_the_guide_make_a_method(tree):
  assert follow(SECTION, tree) == [
    f"tff_fair/methods/{METHOD}.py",
    "tff_fair/methods/registry.py",
    "tests/reference.py",
    "tests/reference.py",
  ]
  code, output = run_tests(tree, *TESTS)
  assert code == 0, output
  for contract in (
    "rule_contract_test.py::test_hard_cohorts_give_finite_numbers",
    "rounds_test.py::test_rounds_are_those_of_numpy",
    "registry_test.py::test_what_is_read_is_what_runs",
    "process_contract_test.py::test_agrees_with_numpy_over_rounds",
    "process_contract_test.py::test_other_settings_agree_with_numpy",
    "process_contract_test.py::test_neutral_setting",
    "layers_test.py::test_imports_keep_to_the_layers",
  ):
    assert re.search(rf"PASSED \S*{contract}\[\S*{METHOD}", output), contract


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_guide_with_a_wrong_formula_fails(tree):
  wrong = SECTION.replace("1.0 + self.boost", "2.0 + self.boost")
  assert wrong != SECTION
  follow(wrong, tree)
  code, output = run_tests(tree, "tests/methods/rounds_test.py")
  assert code == 1, output
  assert "Mismatched elements" in output


def test_the_guide_names_the_command_that_is_run_here():
  assert f"python -m pytest {' '.join(TESTS)} -k {METHOD}\n" in SECTION
