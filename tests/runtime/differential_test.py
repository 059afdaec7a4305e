"""TFF's processes give what they give under its own executors."""

import pytest

from tests.runtime import side_by_side, stock_processes

# Processes that are built and compiled soon.
_QUICK = (
  *("sum", "sum of integers", "mean", "clipping", "adaptive clipping"),
  *("zeroing", "concat", "measurements", "modular clipping", "secure sum"),
)


@pytest.fixture(scope="module")
def both():
  opened = side_by_side.Both()
  yield opened
  opened.close()


@pytest.mark.parametrize("name", _QUICK)
def test_processes(name, both):
  num_clients = 33  # One more than a part has.
  assert not stock_processes.differences(name, num_clients, both)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", stock_processes.NAMES)
def test_all_processes(name, both):
  for num_clients in stock_processes.SIZES:
    assert not stock_processes.differences(name, num_clients, both)
