"""Computations give what TFF's own executors give: a short run of the fuzz."""

import pytest

from benchmarks import fuzz
from benchmarks.fuzzing.computations import contexts, stock

# Processes that are built and compiled soon.
_QUICK = (
  *("sum", "sum of integers", "mean", "clipping", "adaptive clipping"),
  *("zeroing", "concat", "measurements", "modular clipping", "secure sum"),
)


@pytest.fixture(scope="module")
def both():
  opened = contexts.Both()
  yield opened
  opened.close()


@pytest.mark.slow
def test_random_computations():
  found = fuzz.fuzz("computations", seed=16, seconds=45, most=400)
  assert not found.escaped
  assert found.num_cases > 20


@pytest.mark.parametrize("num_clients", [1, 33])
@pytest.mark.parametrize("name", _QUICK)
def test_processes(name, num_clients, both):
  assert not stock.fails(name, num_clients, both)
  assert not stock.differences(name, num_clients, both)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", stock.NAMES)
def test_all_processes(name, both):
  for num_clients in stock.SIZES:
    assert not stock.fails(name, num_clients, both)
    assert not stock.differences(name, num_clients, both)
