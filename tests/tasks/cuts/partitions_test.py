"""Tests that each cut uses all examples once and has the promised property."""

import functools
import hashlib
from collections.abc import Callable

import numpy as np
import pytest

from tasks import cuts
from tests.refusals import rejected

_LABELS = np.random.Generator(np.random.PCG64(7)).integers(0, 10, 1000)


def _assert_cover(parts, num_examples):
  np.testing.assert_array_equal(
    np.sort(np.concatenate(parts)), np.arange(num_examples)
  )


def _counts(labels, parts):
  """Returns the number of examples by client and label."""
  num_labels = labels.max() + 1
  return np.array([np.bincount(labels[p], minlength=num_labels) for p in parts])


def _same(parts, others):
  return all(map(np.array_equal, parts, others))


def _with_least(min_size, cut):
  return functools.partial(cut, min_size=min_size)


class TestLabelShards:
  def test_clients_hold_few_labels(self):
    labels = np.repeat(np.arange(10), 60)
    parts = cuts.label_shards(labels, 30, 2, 0)
    # Each label has 60 examples and so six shards of 10: no shard spans two
    # labels.
    assert max(len(np.unique(labels[part])) for part in parts) <= 2
    assert {len(part) for part in parts} == {20}


class TestFewLabels:
  def test_clients_hold_labels_and_share_them_evenly(self):
    labels = np.repeat(np.arange(10), 1000)
    parts = cuts.few_labels(labels, 100, 5, 0)
    counts = _counts(labels, parts)
    assert {*np.count_nonzero(counts, axis=1)} == {5}
    for held in counts.T:
      assert np.ptp(held[held > 0]) <= 1
    assert not np.array_equal(parts[0], np.sort(parts[0]))

  def test_label_that_no_client_is_given_is_left_out(self):
    labels = np.repeat(np.arange(10), 5)
    (part,) = cuts.few_labels(labels, 1, 3, 0)
    assert len(np.unique(labels[part])) == 3
    assert len(part) == 15

  def test_clients_can_come_out_empty(self):
    parts = cuts.few_labels(np.array([0, 1, 1, 1, 1]), 5, 1, 0)
    assert min(map(len, parts)) == 0
    assert all(part.dtype == np.int64 for part in parts)


class TestInProportion:
  def test_labels_lie_as_in_the_first_data_set(self):
    labels = np.repeat(np.arange(10), 600)
    others = np.repeat(np.arange(10)[::-1], 100)
    parts = cuts.dirichlet(labels, 10, 0.5, 0)
    found = cuts.match_label_proportions(parts, labels, others, 0)
    np.testing.assert_allclose(
      _counts(others, found), _counts(labels, parts) / 6, atol=1
    )
    _assert_cover(found, 1000)

  def test_leaves_out_labels_that_no_client_has(self):
    parts = [np.array([0]), np.array([1])]
    found = cuts.match_label_proportions(
      parts, np.array([3, 3]), np.array([4, 3, 3, 5]), 0
    )
    assert sorted(map(int, np.concatenate(found))) == [1, 2]

  def test_client_without_any(self):
    parts = [np.arange(9), np.array([9])]
    found = cuts.match_label_proportions(parts, np.zeros(10), np.zeros(2), 0)
    assert [len(part) for part in found] == [2, 0]
    assert found[1].dtype == np.int64


class TestByValue:
  def test_a_client_for_each_value_in_order(self):
    names, parts = cuts.by_value(np.array(["b", "a", "b", "c"]))
    assert names == ["a", "b", "c"]
    assert [part.tolist() for part in parts] == [[1], [0, 2], [3]]
    assert all(part.dtype == np.int64 for part in parts)

  def test_rejects_nothing(self):
    with pytest.raises(ValueError, match="no examples"):
      cuts.by_value(np.zeros(0))


@pytest.mark.parametrize(
  "parts",
  [
    cuts.iid(100, 7, 0),
    cuts.power_law(100, 7, 0.0, 0),
    cuts.dirichlet_per_client(np.arange(100) % 9, 7, 0.1, 0),
  ],
)
def test_even_parts_differ_by_one_at_most(parts):
  assert {len(part) for part in parts} == {14, 15}


class TestPowerLaw:
  def test_sizes_fall_with_the_rank(self):
    parts = cuts.power_law(3100, 5, 1.0, 0, min_size=0)
    sizes = [len(part) for part in parts]
    expected = 3100 / np.arange(1, 6) / sum(1 / np.arange(1, 6))
    assert sizes != sorted(sizes, reverse=True)
    np.testing.assert_allclose(sorted(sizes, reverse=True), expected, atol=1)

  @pytest.mark.parametrize("exponent", [0.0, 3.0, 1000.0])
  def test_no_client_is_smaller_than_asked(self, exponent):
    parts = cuts.power_law(100, 10, exponent, 0, min_size=10)
    assert [len(part) for part in parts] == [10] * 10


@pytest.mark.parametrize(
  ("cut", "most"), [(cuts.dirichlet, 1), (cuts.dirichlet_per_client, 4)]
)
def test_large_concentration_is_iid(cut, most):
  labels = np.repeat(np.arange(4), 1000)
  counts = _counts(labels, cut(labels, 10, 1e9, 0))
  np.testing.assert_allclose(counts, 100, atol=most)


class TestDirichlet:
  def test_small_concentration_puts_a_label_at_one_client(self):
    labels = np.repeat(np.arange(4), 1000)
    parts = cuts.dirichlet(labels, 100, 1e-6, 0, min_size=0)
    holders = np.count_nonzero(_counts(labels, parts), axis=0)
    assert holders.tolist() == [1, 1, 1, 1]

  def test_proportions_have_the_moments_of_the_distribution(self):
    # With K clients and concentration a, the variance of a client's share of a
    # label is (1/K)(1 - 1/K) / (K a + 1).
    clients, concentration = 5, 0.7
    labels = np.repeat(np.arange(400), 200)
    parts = cuts.dirichlet(labels, clients, concentration, 0, min_size=0)
    variance = np.var(_counts(labels, parts) / 200, axis=1).mean()
    expected = (1 / 5) * (4 / 5) / (clients * concentration + 1)
    np.testing.assert_allclose(variance, expected, rtol=0.1)

  @pytest.mark.parametrize("concentration", [1e-6, 0.05, 0.5])
  @pytest.mark.parametrize("min_size", [1, 10, 33])
  def test_no_client_is_smaller_than_asked(self, concentration, min_size):
    parts = cuts.dirichlet(_LABELS, 30, concentration, 3, min_size=min_size)
    assert min(map(len, parts)) >= min_size
    _assert_cover(parts, 1000)

  def test_large_enough_clients_are_left_alone(self):
    free = cuts.dirichlet(_LABELS, 10, 5.0, 0, min_size=0)
    assert min(map(len, free)) >= 20
    assert _same(free, cuts.dirichlet(_LABELS, 10, 5.0, 0, min_size=20))

  def test_labels_need_not_be_numbers(self):
    labels = np.array(["cat", "dog"] * 10)
    _assert_cover(cuts.dirichlet(labels, 4, 1.0, 0), 20)


class TestDirichletPerClient:
  def test_small_concentration_is_one_label_as_far_as_it_suffices(self):
    labels = np.repeat(np.arange(4), 1000)
    parts = cuts.dirichlet_per_client(labels, 100, 1e-6, 0)
    counts = _counts(labels, parts)
    first = counts.argmax(axis=1)
    least = [counts[first == label, label].min() for label in range(4)]
    most = [counts[first == label, label].max() for label in range(4)]
    np.testing.assert_allclose(least, most, atol=1)  # All have the same share.
    assert 40 in least  # Some label suffices for its clients.
    assert min(least) < 40

  @pytest.mark.parametrize("concentration", [0.1, 2.0])
  def test_shares_of_all_clients_have_one_distribution(self, concentration):
    labels = np.repeat(np.arange(10), 300)
    counts = [
      _counts(labels, cuts.dirichlet_per_client(labels, 30, concentration, k))
      for k in range(200)
    ]
    shares = np.array(counts) / 100
    variances = shares.var(axis=0).mean(axis=1)  # Of each client.
    # Each variance is estimated from 200 draws of 10 labels, to about 5 %.
    np.testing.assert_allclose(variances, variances.mean(), rtol=0.25)
    law = 0.1 * 0.9 / (10 * concentration + 1)
    assert 0.7 * law < variances.mean() < law


@pytest.mark.parametrize(
  ("cut", "arguments", "field"),
  [
    *((cuts.iid, (10, count), "num_clients") for count in (0, 11)),
    (cuts.label_shards, (_LABELS, 501, 2), "shards_per_client"),
    (cuts.label_shards, (_LABELS, 1001, 1), "num_clients"),
    (cuts.label_shards, (_LABELS, 3, 0), "shards_per_client"),
    (cuts.label_shards, (_LABELS, -3, -2), "num_clients"),
    (cuts.label_shards, (np.zeros(0, int), 1, 1), "num_clients"),
    (cuts.few_labels, (_LABELS, 30, 0), "labels_per_client"),
    (cuts.few_labels, (_LABELS, 30, 11), "labels_per_client"),
    (cuts.few_labels, (_LABELS, 0, 1), "num_clients"),
    (cuts.power_law, (10, 11, 1.0), "num_clients"),
    (_with_least(3, cuts.power_law), (10, 5, 1.0), "min_size"),
    (cuts.dirichlet, (_LABELS, 0, 0.5), "num_clients"),
    (_with_least(34, cuts.dirichlet), (_LABELS, 30, 0.5), "min_size"),
    (_with_least(-1, cuts.dirichlet), (_LABELS, 30, 0.5), "min_size"),
    (cuts.dirichlet_per_client, (_LABELS, 1001, 0.5), "num_clients"),
  ],
)
def test_rejects(cut, arguments, field):
  with rejected(field):
    cut(*arguments, 0)


_CUTS: dict[str, Callable[[cuts.Seed], list[np.ndarray]]] = {
  "iid": lambda seed: cuts.iid(1000, 30, seed),
  "label_shards": lambda seed: cuts.label_shards(_LABELS, 30, 2, seed),
  "dirichlet": lambda seed: cuts.dirichlet(_LABELS, 30, 0.5, seed, min_size=10),
  "dirichlet, skewed": lambda seed: cuts.dirichlet(_LABELS, 30, 1e-6, seed),
  "dirichlet_per_client": lambda seed: cuts.dirichlet_per_client(
    _LABELS, 30, 0.5, seed
  ),
  "dirichlet_per_client, skewed": lambda seed: cuts.dirichlet_per_client(
    _LABELS, 30, 1e-6, seed
  ),
  "power_law": lambda seed: cuts.power_law(1000, 30, 1.0, seed),
  "few_labels": lambda seed: cuts.few_labels(_LABELS, 30, 5, seed),
  "in_proportion": lambda seed: cuts.match_label_proportions(
    _CUTS["label_shards"](0), _LABELS, _LABELS, seed
  ),
  "train_test_split": lambda seed: list(
    cuts.train_test_split(np.arange(1000), 0.2, seed)
  ),
}


@pytest.mark.parametrize("cut", _CUTS.values(), ids=_CUTS)
class TestEveryCut:
  @pytest.mark.parametrize("seed", [0, 1, 2**40, (3, 4)])
  def test_covers_every_example_exactly_once(self, cut, seed):
    _assert_cover(cut(seed), 1000)

  def test_gives_positions(self, cut):
    assert all(part.dtype == np.int64 for part in cut(0))

  def test_depends_on_its_seed_alone(self, cut):
    np.random.seed(1)
    first = cut(5)
    np.random.seed(2)
    assert _same(first, cut(5))
    assert not _same(first, cut(6))
    assert not _same(cut((5, 0)), cut((5, 1)))


@pytest.mark.parametrize(
  ("name", "digest"),
  [
    ("iid", "a0d6d7e33085a8d0"),
    ("label_shards", "647a389b1066e7bd"),
    ("dirichlet", "a242df96065c03b0"),
    ("train_test_split", "bb93e8a4af6e8226"),
    ("dirichlet_per_client", "e5e475fc2d5e4070"),
    ("power_law", "ced46468ebe80392"),
    ("few_labels", "8aa5e0d5f7fa2383"),
    ("in_proportion", "3701ef3c6f48526c"),
  ],
)
def test_the_cut_does_not_change(name, digest):
  parts = _CUTS[name](0)
  joined = np.concatenate([[len(part), *part] for part in parts])
  found = hashlib.sha256(joined.astype("<i8").tobytes()).hexdigest()
  assert found[:16] == digest
