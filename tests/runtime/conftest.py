"""What tests of the runtime share."""

import sys

import pytest

pytestmark = pytest.mark.tff


@pytest.fixture(scope="module", autouse=True)
def processes_are_forgotten():
  """A process keeps what was compiled of it."""
  yield
  if (module := sys.modules.get("tests.runtime.computations")) is not None:
    module.process.cache_clear()
