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
  def pytest_runtest_teardown(self):
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
  arguments = ["-m", "pure", "tests/metrics", "tests/checks_test.py"]
  assert run_tests(tmp_path, *arguments) == ["0", "0"]


def test_tests_of_kernels_import_tensorflow_alone(tmp_path):
  # All are imported; one file is run.
  arguments = ["-m", "pure", "-k", "finiteness_test", "tests/kernels"]
  assert run_tests(tmp_path, *arguments) == ["0", "0", "tensorflow"]


def test_other_tests_start_the_worker(tmp_path):
  arguments = ["tests/runtime/collecting_test.py", "-k", "report_is_made_once"]
  found = run_tests(tmp_path, *arguments)
  assert found == ["0", "1", "tensorflow", "tensorflow_federated"]


@pytest.mark.parametrize(
  ("name", "tier"),
  [
    ("kernels/gram_test.py", "pure"),
    ("methods/term_test.py", "pure"),
    ("methods/afl_process_test.py", "tff"),
    ("methods/process_contract_test.py", "tff"),
    ("runtime/allocator_test.py", "pure"),
    ("runtime/contexts_test.py", "tff"),
    ("tasks/digits_test.py", "tff"),
    ("tasks/cuts/by_size_test.py", "pure"),
    ("experiments/training/loop_test.py", "program"),
    ("experiments/reporting/page_test.py", "pure"),
    ("a_new_folder/a_test.py", "program"),
  ],
)
def test_the_path_of_a_file_tells_its_tier(name, tier):
  assert conftest.tier_of(conftest.TESTS / name) == tier


def test_each_test_has_the_mark_of_its_tier(request):
  marks = {mark.name for mark in request.node.iter_markers()}
  assert marks & {"pure", "tff", "program"} == {"program"}
