"""Tests that draws of clients and test examples depend only on the seed."""

import numpy as np
import pytest

from tasks import cuts
from tasks.task import Split
from tests.refusals import rejected


class TestTrainTestSplit:
  def test_can_leave_some_out(self):
    train, test = cuts.train_test_split(
      np.arange(7000), 0.1, 0, unused_fraction=0.1
    )
    assert (len(train), len(test)) == (5600, 700)
    assert len(np.unique([*train, *test])) == 6300

  def test_leaves_one_to_train_on(self):
    train, test = cuts.train_test_split(
      np.arange(2), 0.4, 0, unused_fraction=0.5
    )
    assert (len(train), len(test)) == (1, 1)

  @pytest.mark.parametrize(
    ("size", "fraction", "num_test"),
    [(10, 0.2, 2), (2, 0.01, 1), (2, 0.99, 1), (3, 0.9, 2), (1000, 0.25, 250)],
  )
  def test_sizes(self, size, fraction, num_test):
    train, test = cuts.train_test_split(np.arange(size), fraction, 0)
    assert (len(train), len(test)) == (size - num_test, num_test)

  def test_splits_the_indices_it_is_given(self):
    indices = np.array([40, 10, 30, 20])
    train, test = cuts.train_test_split(indices, 0.5, 0)
    assert sorted([*train, *test]) == [10, 20, 30, 40]
    np.testing.assert_array_equal(indices, [40, 10, 30, 20])


class TestLocalSplit:
  def _whole(self, *sizes):
    return Split(
      num_examples=np.array(sizes),
      load=lambda k: (np.arange(sizes[k]), 10 * np.arange(sizes[k])),
    )

  @pytest.mark.parametrize("fraction", [0.01, 0.2, 0.5, 0.99])
  def test_halves_are_what_they_say_and_whole_together(self, fraction):
    sizes = (2, 3, 5, 11, 100)
    train, test = cuts.local_split(self._whole(*sizes), fraction, 3)
    assert (train.num_examples + test.num_examples).tolist() == list(sizes)
    for client_id, size in enumerate(sizes):
      halves = train.load(client_id), test.load(client_id)
      for half, split in zip(halves, (train, test), strict=True):
        assert len(half[0]) == split.num_examples[client_id] > 0
        np.testing.assert_array_equal(half[1], 10 * half[0])
      together = np.concatenate([half[0] for half in halves])
      assert sorted(together) == list(range(size))

  def test_clients_are_cut_differently(self):
    train, _ = cuts.local_split(self._whole(50, 50), 0.5, 0)
    assert not np.array_equal(train.load(0)[0], train.load(1)[0])


def test_chooses_different_clients_in_order():
  clients = np.arange(1000, 3000, 20)
  chosen, again, other = (
    cuts.random_subset(clients, 20, seed, what="users") for seed in (3, 3, 4)
  )
  assert len(chosen) == 20
  assert (np.diff(chosen) > 0).all()
  assert set(chosen) < set(clients)
  np.testing.assert_array_equal(chosen, again)
  assert not np.array_equal(chosen, other)
  # A seed chooses the same positions, whoever the clients are.
  places = cuts.random_subset(np.arange(100), 20, 3, what="users")
  np.testing.assert_array_equal(chosen, clients[places])


def test_all_clients_or_too_few():
  everyone = cuts.random_subset(np.arange(3), None, 0, what="users")
  assert everyone.tolist() == [0, 1, 2]
  with rejected("num_clients", "users", value=4):
    cuts.random_subset(np.arange(3), 4, 0, what="users")
