"""One execution context for all tests of a session."""

import pytest

from tff_fair import runtime


@pytest.fixture(scope="session", autouse=True)
def local_execution():
  """Runs computations in one local worker."""
  runtime.use_local()
  yield
  runtime.stop()
