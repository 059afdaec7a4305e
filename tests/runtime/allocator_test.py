"""Tests of the allocator's settings, in processes of their own."""

import os
import subprocess
import sys

import pytest

from tests import source_tree

pytestmark = pytest.mark.pure

_COUNT_PAGE_FAULTS = """
import resource, sys, threading
if sys.argv[1:]:
  from tff_fair.runtime import workers
  assert workers.keep_freed_memory()
  assert "tensorflow" not in sys.modules
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
    env={**os.environ, "PYTHONPATH": str(source_tree.ROOT)},
    check=True,
    capture_output=True,
    timeout=60,
  ).stdout
  return int(output)


@pytest.mark.skipif(
  not sys.platform.startswith("linux"), reason="needs glibc's allocator"
)
def test_freed_memory_is_used_again_without_page_faults():
  assert page_faults() > 10_000
  assert page_faults("kept") < 1_000
