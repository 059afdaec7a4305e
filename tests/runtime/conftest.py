"""Fixtures of the tests of the runtime."""

import sys

import pytest

pytestmark = pytest.mark.tff


@pytest.fixture(scope="module", autouse=True)
def processes_are_forgotten():
  """Forgets cached processes, which hold their compiled computations."""
  yield
  if (module := sys.modules.get("tests.runtime.computations")) is not None:
    module.process.cache_clear()
