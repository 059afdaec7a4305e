"""Tests of the tiers: that pure tests are, and that others get their worker."""

import os
import pathlib
import subprocess
import sys
import types
from typing import Any

import pytest

from tests import conftest, source_tree

# Runs pytest, and prints the workers that it started and which of the large
# packages it imported.
_RUN_TESTS = """
import pathlib, sys
import pytest

def workers():
  for process in pathlib.Path("/proc").glob("[0-9]*"):
    try:
      command = (process / "cmdline").read_bytes()
      environment = (process / "environ").read_bytes()
    except OSError:
      continue
    is_worker = command.split(b"\\0")[0].endswith(b"worker_binary")
    if is_worker and sys.argv[1].encode() in environment:
      yield process.name

class Watch:
  number = 0
  def pytest_runtest_teardown(self, item, nextitem):
    # A file's worker ends after its last test.
    if nextitem is None or nextitem.path != item.path:
      self.number = max(self.number, len([*workers()]))

watch = Watch()
status = pytest.main(
  ["-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", *sys.argv[2:]],
  plugins=[watch],
)
large = {"tensorflow", "tensorflow_federated"}
print(int(status), watch.number, *sorted(large.intersection(sys.modules)))
"""


def run_tests(tmp_path: pathlib.Path, *arguments: str) -> list[str]:
  """Returns exit status, number of workers, and large packages imported."""
  mark = str(tmp_path)  # In the environment that workers inherit.
  output = subprocess.run(
    [sys.executable, "-c", _RUN_TESTS, mark, *arguments],
    cwd=source_tree.ROOT,
    env={**os.environ, "TFF_FAIR_TIERS": mark},
    stdout=subprocess.PIPE,
    text=True,
    timeout=240,
    check=False,
  ).stdout
  return output.splitlines()[-1].split()


def test_pure_tests_need_no_large_package_where_none_is_used(tmp_path):
  # Of the metrics, the stationarity alone takes TensorFlow. Repetitions of what
  # other tests call take most of the time.
  files = ["tests/metrics", "tests/declared_test.py"]
  others = ["-k", "not (confidence or scikit or cover or seldom or histogram)"]
  arguments = ["-m", "pure", *files, "--ignore-glob=*stationarity_test.py"]
  arguments += others
  assert run_tests(tmp_path, *arguments) == ["0", "0"]


def test_tests_of_kernels_import_tensorflow_alone(tmp_path):
  # All are imported; one file is run.
  arguments = ["-m", "pure", "-k", "norms_test", "tests/kernels"]
  assert run_tests(tmp_path, *arguments) == ["0", "0", "tensorflow"]


def test_other_tests_start_the_worker(tmp_path):
  arguments = ["tests/runtime/collecting_test.py", "-k", "report_is_made_once"]
  found = run_tests(tmp_path, *arguments)
  assert found == ["0", "1", "tensorflow", "tensorflow_federated"]


def module(path, *marks):
  """Returns a file with some marks, as Python imports it."""
  found: Any = types.ModuleType("module")
  found.__file__ = str(path)
  if marks:
    found.pytestmark = [pytest.mark.slow, *marks] if marks[1:] else marks[0]
  return found


@pytest.mark.parametrize(
  ("name", "marks", "tier"),
  [
    ("a_test.py", [], "program"),
    ("folder/a_test.py", [], "tff"),
    ("folder/a_test.py", [pytest.mark.slow], "tff"),
    ("folder/a_test.py", [pytest.mark.pure], "pure"),
    ("folder/a_test.py", [pytest.mark.skip, pytest.mark.program], "program"),
    ("folder/inner/a_test.py", [], "tff"),
    ("new/inner/a_test.py", [], "program"),
  ],
)
def test_the_tier_is_the_mark_of_the_file_or_the_nearest_folder(
  name, marks, tier
):
  plugins = [
    object(),
    module("tests/conftest.py", pytest.mark.program),
    module("tests/folder/conftest.py", pytest.mark.skip, pytest.mark.tff),
    module("tests/folder/inner/conftest.py", pytest.mark.slow),
    module("tests/folder/pure_test.py", pytest.mark.pure),
  ]
  path = pathlib.Path("tests", name)
  file = types.SimpleNamespace(path=path, obj=module(path, *marks))
  assert conftest.Tiers(plugins).of(file) == tier


def test_each_test_has_the_mark_of_its_tier(request):
  marks = {mark.name for mark in request.node.iter_markers()}
  assert marks & {"pure", "tff", "program"} == {"program"}
