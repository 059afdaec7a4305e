"""Tests of the tiers: that pure tests are, and that others get their worker."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests import conftest, source_tree

# Runs pytest, and prints the workers that it started and which of the large
# packages it imported.
_RUN_TESTS = """
import sys
import psutil, pytest

def num_workers():
  return sum(
    (process.info["environ"] or {}).get("TFF_FAIR_TIERS") == sys.argv[1]
    and process.info["cmdline"][0].endswith("worker_binary")
    for process in psutil.process_iter(["cmdline", "environ"])
  )

class Watch:
  number = 0
  def pytest_runtest_teardown(self, item, nextitem):
    # A file's worker ends after its last test.
    if nextitem is None or nextitem.path != item.path:
      self.number = max(self.number, num_workers())

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
  # other tests call take most of the time. The finalizers are of another tier.
  files = ["tests/metrics", "tests/declared_test.py", "tests/finalizers"]
  slow = "confidence or scikit or cover or seldom or histogram or threshold"
  arguments = ["-m", "pure", *files, "--ignore-glob=*stationarity_test.py"]
  arguments += ["-k", f"not ({slow} or p_value)"]
  assert run_tests(tmp_path, *arguments) == ["0", "0"]


@pytest.mark.long
def test_tests_of_kernels_import_tensorflow_alone(tmp_path):
  # All are imported; one file is run.
  arguments = ["-m", "pure", "-k", "norms_test", "tests/kernels"]
  assert run_tests(tmp_path, *arguments) == ["0", "0", "tensorflow"]


@pytest.mark.long
def test_other_tests_start_the_worker(tmp_path):
  arguments = ["tests/runtime/collecting_test.py", "-k", "report_is_made_once"]
  found = run_tests(tmp_path, *arguments)
  assert found == ["0", "1", "tensorflow", "tensorflow_federated"]


@pytest.mark.parametrize(
  ("name", "marks", "tier"),
  [
    ("a_test.py", "", "program"),
    ("folder/a_test.py", "", "tff"),
    ("folder/a_test.py", "pytestmark = pytest.mark.slow\n", "tff"),
    ("folder/a_test.py", "pytestmark = pytest.mark.pure\n", "pure"),
    ("folder/a_test.py", "pytestmark = []\npytest.mark.pure\n", "tff"),
    (
      "folder/a_test.py",
      "import a\n\npytestmark = [\n  pytest.mark.skip,\n"
      "  pytest.mark.program,\n]\n",
      "program",
    ),
    ("folder/inner/a_test.py", "", "tff"),
    ("new/inner/a_test.py", "", "program"),
  ],
)
def test_the_tier_is_the_mark_of_the_file_or_the_nearest_folder(
  tmp_path, name, marks, tier
):
  texts = {
    "conftest.py": "pytestmark = pytest.mark.program\n",
    "folder/conftest.py": "pytestmark = [pytest.mark.skip, pytest.mark.tff]\n",
    "folder/inner/conftest.py": "pytestmark = pytest.mark.slow\n",
    "folder/pure_test.py": "pytestmark = pytest.mark.pure\n",
    name: marks,
  }
  for path, text in texts.items():
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / path).write_text(text)
  assert conftest.tier_of(tmp_path / name) == tier


def test_each_test_has_the_mark_of_its_tier(request):
  marks = {mark.name for mark in request.node.iter_markers()}
  assert marks & {"pure", "tff", "program"} == {"program"}
  assert request.fixturenames[0] == "local_execution"
