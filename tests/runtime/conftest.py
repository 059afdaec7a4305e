"""Workers that tests of the runtime share."""

import pytest

from tff_fair import runtime

pytestmark = pytest.mark.tff


@pytest.fixture(scope="module")
def two_workers():
  """Two workers, which are those of a program of others."""
  with runtime.start_worker() as first, runtime.start_worker() as second:
    yield [first, second]
