"""Tests of the allocator's settings, in processes of their own."""

import subprocess
import sys

import pytest

from tests import source_tree

pytestmark = pytest.mark.pure

# The module is loaded by its path: TensorFlow is not needed for it.
_COUNT_PAGE_FAULTS = """
import importlib.util, resource, sys, threading
if sys.argv[1:]:
  spec = importlib.util.spec_from_file_location("allocator", sys.argv[1])
  allocator = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(allocator)
  assert allocator.keep_freed_memory()
def faults(repetitions):
  for _ in range(repetitions):
    thread = threading.Thread(target=lambda: b"x" * 2**26)
    thread.start()  # 16384 pages, freed at once.
    thread.join()
  return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
print(-faults(3) + faults(10))
"""


def page_faults(*arguments: str) -> int:
  output = subprocess.run(
    [sys.executable, "-c", _COUNT_PAGE_FAULTS, *arguments],
    check=True,
    capture_output=True,
    timeout=60,
  ).stdout
  return int(output)


@pytest.mark.skipif(
  not sys.platform.startswith("linux"), reason="needs glibc's allocator"
)
def test_freed_memory_is_used_again_without_page_faults():
  module = source_tree.ROOT / "tff_fair" / "runtime" / "allocator.py"
  assert page_faults() > 10_000
  assert page_faults(str(module)) < 1_000
