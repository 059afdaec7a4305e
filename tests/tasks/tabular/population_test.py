"""Tests that rows become clients, each with training and test rows."""

import numpy as np
import pytest

from tasks import cuts
from tasks.tabular import population
from tests.refusals import refused, rejected

NAMES = ("a", "b", "c", "d")
CLIENTS = np.array([2, 0, 1, 0, 2, 2, 0, 3, 0, 0])


def divide(is_test, clients=CLIENTS, names=NAMES, **options):
  return population.divide(
    clients,
    names,
    np.array(is_test, bool),
    **{
      "min_examples": 2,
      "num_clients": None,
      "seed": 0,
      "source": "rows.csv, column 'who'",
      **options,
    },
  )


IS_TEST = [1, 0, 0, 1, 0, 0, 0, 1, 0, 0]


def test_rows_by_client():
  found = divide(IS_TEST)
  # b has no test row, and d has no training row.
  assert found.names == ("a", "c")
  assert found.num_left_out == 2
  assert [found.train.of_client(k).tolist() for k in (0, 1)] == [
    [1, 6, 8, 9],
    [4, 5],
  ]
  assert [found.test.of_client(k).tolist() for k in (0, 1)] == [[3], [0]]
  assert found.train.sizes.tolist() == [4, 2]


def test_few_rows_and_a_choice():
  clients = np.repeat([0, 1, 2, 3], [2, 3, 4, 5])
  is_test = np.diff(clients, prepend=-1) > 0
  found = divide(is_test, clients, min_examples=3, num_clients=2, seed=1)
  assert found.num_left_out == 1
  assert len(found.names) == 2
  for k, name in enumerate(found.names):
    rows = np.concatenate([found.test.of_client(k), found.train.of_client(k)])
    assert (
      rows.tolist() == np.flatnonzero(clients == NAMES.index(name)).tolist()
    )
  with rejected("num_clients", 3, value=4):
    divide(is_test, clients, min_examples=3, num_clients=4)


@pytest.mark.parametrize(
  ("names", "is_test", "fact"),
  [
    (("only",), [0, 1], "'only'"),
    (("a", "b"), [0, 1], "0 of 2 clients"),
    (("a", "b"), [0, 1, 1], "1 of 2 clients"),
  ],
)
def test_no_federation(names, is_test, fact):
  clients = np.arange(len(is_test)) % len(names)
  with refused("rows.csv, column 'who'", fact):
    divide(is_test, clients, names)


@pytest.mark.parametrize("fraction", [0.01, 0.2, 0.5, 0.99])
def test_a_share_of_each_client(fraction):
  sizes = np.array([1, 2, 3, 10, 500])
  clients = np.random.default_rng(0).permutation(np.repeat(range(5), sizes))
  is_test = population.choose_test_rows(clients, fraction, 0, None)
  num_test = np.bincount(clients[is_test], minlength=5)
  assert num_test[0] == 0
  for k in range(1, 5):
    train, test = cuts.train_test_split(np.arange(sizes[k]), fraction, 0)
    assert (sizes[k] - num_test[k], num_test[k]) == (len(train), len(test))


def test_a_share_is_random_and_seeded():
  clients = np.zeros(1000, int)
  first, other = (
    population.choose_test_rows(clients, 0.5, k, None) for k in (0, 1)
  )
  np.testing.assert_array_equal(
    first, population.choose_test_rows(clients, 0.5, 0, None)
  )
  assert 400 < (first != other).sum() < 600
  assert 200 < first[:500].sum() < 300


def test_a_share_of_each_class():
  clients = np.repeat([0, 1, 2], [40, 10, 7])
  classes = np.concatenate(
    [np.arange(40) % 4, np.arange(10) // 5, np.arange(7) // 6]
  )
  for seed in range(20):
    is_test = population.choose_test_rows(clients, 0.2, seed, classes)
    count = np.zeros([3, 4], int)
    np.add.at(count, (clients[is_test], classes[is_test]), 1)
    assert count[0].tolist() == [2, 2, 2, 2]
    assert count[1].tolist() == [1, 1, 0, 0]
    assert count[2].sum() == 1


@pytest.mark.parametrize("num_rare", [1, 10])
def test_each_class_has_a_row_to_train_on(num_rare):
  clients = np.repeat([0, 1, 2, 3], 20)
  classes = np.zeros(80, int)
  classes[np.arange(num_rare) * 7] = np.arange(num_rare) + 1
  for seed in range(20):
    is_test = population.choose_test_rows(clients, 0.3, seed, classes)
    found = divide(is_test, clients, seed=seed, classes=classes)
    assert set(classes[found.train.rows]) == set(range(num_rare + 1))
    assert found.test.sizes.tolist() == [6, 6, 6, 6]
  # Without classes, the halves are kept as they are.
  kept = divide(is_test, clients, seed=seed)
  assert kept.test.rows.tolist() == np.flatnonzero(is_test).tolist()
