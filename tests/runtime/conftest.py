"""Workers that tests of the runtime share."""

import sys

import pytest

from tff_fair import runtime

pytestmark = pytest.mark.tff


@pytest.fixture(scope="module")
def two_workers():
  """Two workers, which are those of a program of others."""
  with runtime.start_worker() as first, runtime.start_worker() as second:
    yield [first, second]


@pytest.fixture(scope="module", autouse=True)
def processes_are_forgotten():
  """A process keeps what was compiled of it."""
  yield
  if (module := sys.modules.get("tests.runtime.computations")) is not None:
    module.process.cache_clear()
