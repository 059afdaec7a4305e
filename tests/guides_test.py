"""Follows the guides in the documents, in a copy of the source tree.

A place in a guide is a path in bold: alone for a new file, followed by "in
`NAME`" for an entry of a table, or by "above `NAME`" for code before it. The
name `import` stands for the import that lists the modules of the file's own
folder.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests import source_tree

pytestmark = pytest.mark.program

PLACE = re.compile(
  r"\*\*`(?P<path>[\w/.]+)`\*\*"
  r"(?:,\s(?P<where>in|above)\s(?:the\s)?`(?P<name>\w+)`)?"
  r"(?:(?!\*\*).)*?```python\n(?P<code>.*?)```",
  re.DOTALL,
)
TESTS = re.compile(
  r"^python -m pytest ([\w/. ]+?)(?: -k \"?([\w ]+)\"?)?$", re.MULTILINE
)
# Commands of a guide in bash blocks, except those that run tests.
COMMANDS = re.compile(r"^python (-m (?!pytest)[^\n]+)$", re.MULTILINE)
FOLDERS = (
  *("tff_fair", "tasks", "binaries", "benchmarks", "tests", "docs"),
  *("demonstrations", "scripts"),
)
QUIET = ("-q", "-rA", "-p", "no:xdist", "-p", "no:cacheprovider")


class Guide(NamedTuple):
  """A guide, and what holds in a tree after the guide's changes."""

  page: str
  title: str
  paths: tuple[str, ...]
  passed: tuple[str, ...]
  use: str

  @property
  def section(self):
    """The text below the heading."""
    text = (source_tree.ROOT / "docs" / self.page).read_text()
    return text.partition(f"\n## {self.title}\n")[2].partition("\n## ")[0]


METHOD = Guide(
  "extending.md",
  "Adding a method",
  (
    "tff_fair/methods/boosted.py",
    "tff_fair/methods/registry.py",
    "tests/reference.py",
    "tests/reference.py",
  ),
  (
    r"rule_contract_test.py::test_hard_cohorts_give_finite_numbers\[.*boosted",
    r"rounds_test.py::test_rounds_are_those_of_numpy\[.*boosted",
    r"registry_test.py::test_what_is_read_is_what_runs\[.*boosted",
    r"process_contract_test.py::test_agrees_with_numpy_over_rounds\[.*boosted",
    r"process_contract_test.py::test_other_settings_agree_with_numpy\[.*boosted",
    r"process_contract_test.py::test_neutral_setting\[.*boosted",
    "layers_test.py::test_imports_keep_to_the_layers",
    r"stubs_test.py::test_stubs_are_fresh\[",
  ),
  """
import pathlib
from tff_fair import aggregators, algorithms, experiments, methods, summing
assert "boosted" in algorithms.names()
assert methods.title("boosted") == "Boosted"
assert algorithms.build_boosted is algorithms.get("boosted").build
assert isinstance(aggregators.BoostedFactory(boost=2.0), summing.RuleFactory)
packages = {"build_boosted": algorithms, "BoostedFactory": aggregators}
for name, package in packages.items():
  assert name in pathlib.Path(package.__file__ + "i").read_text()
(run,) = experiments.open_runs("outputs")
assert run.is_finished and run.spec.hparams == {"boost": 2.0}
""",
)
TASK = Guide(
  "extending.md",
  "Adding a task",
  ("tasks/wine.py", "tasks/registry.py", "tests/tasks/task_files.py"),
  (
    r"registry_test.py::TestEveryTask::test_describes_itself\[wine",
    r"registry_test.py::TestEveryTask::test_model_takes_the_data\[wine",
    r"registry_test.py::TestEveryTask::test_seed_decides_clients\[wine",
    r"knowing_test.py::TestEveryTask::test_every_option_has_a_meaning\[wine",
  ),
  """
import tasks
from tff_fair import experiments
assert "wine" in tasks.names()
assert tasks.option_defaults("wine")["model"] == "logistic_regression"
(run,) = experiments.open_runs("outputs")
assert run.is_finished and run.task == "wine"
""",
)


def insert(source, where, name, code):
  """Returns a source with code added above an assignment, or inside it."""
  lines = source.splitlines(keepends=True)
  (statement,) = (
    node for node in ast.walk(ast.parse(source)) if is_place(node, name)
  )
  if where == "above":
    lines.insert(statement.lineno - 1, f"{code}\n\n")
  else:
    assert statement.end_lineno is not None
    lines.insert(statement.end_lineno - 1, code)
  return "".join(lines)


def is_place(node, name):
  """Returns whether `node` assigns `name` or, for "import", lists modules."""
  match node:
    case ast.ImportFrom() if name == "import":
      return node.names[0].lineno > node.lineno
    case ast.Assign(targets=[ast.Name(id=found)]):
      return found == name
    case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr()):
      return found == name
  return False


def follow(section, root):
  """Makes a guide's changes in a tree; returns the paths of changed files."""
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
  for folder in FOLDERS:
    shutil.copytree(
      source_tree.ROOT / folder, tmp_path / folder, ignore=ignored
    )
  shutil.copy(source_tree.ROOT / "pyproject.toml", tmp_path)
  return tmp_path


def run_python(tree, *arguments):
  """Runs Python in a tree; returns exit code and output."""
  environment = {k: v for k, v in os.environ.items() if "PYTEST" not in k}
  environment.pop("PYTHONPATH", None)
  done = subprocess.run(
    [sys.executable, *arguments],
    cwd=tree,
    env=environment,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
    check=False,
  )
  return done.returncode, done.stdout


def run_tests(tree, tests, chosen):
  """Runs the tests that match `chosen`; returns exit code and output."""
  return run_python(tree, "-m", "pytest", *QUIET, "-k", chosen, *tests)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
  "guide",
  [TASK, METHOD],
  ids=lambda guide: guide.title.split()[-1],
)
def test_the_steps_of_a_guide_lead_to_its_end(tree, guide):
  assert tuple(follow(guide.section, tree)) == guide.paths
  for command in COMMANDS.findall(guide.section):
    code, output = run_python(tree, *command.split())
    assert code == 0, output[-4000:]
  code, output = run_python(tree, "-c", guide.use)
  assert code == 0, output[-4000:]
  (command,) = TESTS.finditer(guide.section)
  code, output = run_tests(tree, command[1].split(), command[2] or "")
  assert code == 0, output[-4000:]
  for test in guide.passed:
    assert re.search(rf"PASSED \S*{test}", output), test
