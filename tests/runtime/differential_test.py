"""Computations give what TFF's own executors give: a short run of the fuzz."""

import random

import pytest

from benchmarks import fuzz
from benchmarks.fuzzing import computations
from benchmarks.fuzzing.computations import contexts, stock, subject

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
  found = fuzz.fuzz("computations", seed=16, seconds=3, most=200)
  assert not found.escaped
  assert found.counts.total() > 0


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(
  "family", dict.fromkeys(computations.FAMILIES), ids=lambda f: f.__name__
)
def test_families(family, seed, both):
  rng = random.Random(seed)
  drawn = family(rng)
  for case in subject.cases(drawn, rng, both, seed, num_calls=3):
    case.run()  # Raises a `DifferenceError`.


@pytest.mark.parametrize("name", _QUICK)
def test_processes(name, both):
  num_clients = 33  # One more than a part has.
  assert not stock.fails(name, num_clients, both)
  assert not stock.differences(name, num_clients, both)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", stock.NAMES)
def test_all_processes(name, both):
  for num_clients in stock.SIZES:
    assert not stock.fails(name, num_clients, both)
    assert not stock.differences(name, num_clients, both)
