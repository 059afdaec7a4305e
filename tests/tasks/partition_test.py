import hashlib

import numpy as np
import pytest

from tasks import partition

_LABELS = np.random.Generator(np.random.PCG64(7)).integers(0, 10, 1000)

_CUTS = {
  "iid": lambda seed: partition.iid(1000, 30, seed),
  "label_shards": lambda seed: partition.label_shards(_LABELS, 30, 2, seed),
  "dirichlet": lambda seed: partition.dirichlet(
    _LABELS, 30, 0.5, seed, min_size=10
  ),
  "dirichlet, skewed": lambda seed: partition.dirichlet(
    _LABELS, 30, 1e-6, seed
  ),
  "train_test_split": lambda seed: list(
    partition.train_test_split(np.arange(1000), 0.2, seed)
  ),
}


def _assert_cover(parts, num_examples):
  np.testing.assert_array_equal(
    np.sort(np.concatenate(parts)), np.arange(num_examples)
  )


def _same(parts, others):
  return all(map(np.array_equal, parts, others))


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
  ],
)
def test_cut_is_the_one_of_earlier_versions(name, digest):
  parts = _CUTS[name](0)
  joined = np.concatenate([[len(part), *part] for part in parts])
  found = hashlib.sha256(joined.astype("<i8").tobytes()).hexdigest()
  assert found[:16] == digest


class TestIid:
  def test_parts_differ_by_one_at_most(self):
    sizes = [len(part) for part in partition.iid(100, 7, 0)]
    assert sorted(set(sizes)) == [14, 15]

  def test_is_not_the_order_of_the_examples(self):
    assert not np.array_equal(
      np.concatenate(partition.iid(100, 7, 0)), np.arange(100)
    )

  @pytest.mark.parametrize("num_clients", [0, -1, 11])
  def test_rejects(self, num_clients):
    with pytest.raises(ValueError, match=r"num_clients .* 10; found"):
      partition.iid(10, num_clients, 0)


class TestLabelShards:
  def test_clients_hold_few_labels(self):
    labels = np.repeat(np.arange(10), 60)
    parts = partition.label_shards(labels, 30, 2, 0)
    # 60 shards of 10 in labels of 60: no shard spans two labels.
    assert max(len(np.unique(labels[part])) for part in parts) <= 2
    assert {len(part) for part in parts} == {20}

  def test_shards_are_dealt_at_random(self):
    labels = np.repeat(np.arange(10), 60)
    parts = partition.label_shards(labels, 30, 2, 0)
    hands = {tuple(np.unique(labels[part])) for part in parts}
    assert any(high - low > 1 for low, *rest in hands for high in rest)

  def test_examples_within_a_label_are_shuffled(self):
    parts = partition.label_shards(np.zeros(100, int), 1, 1, 0)
    assert not np.array_equal(parts[0], np.arange(100))

  def test_one_shard_each(self):
    parts = partition.label_shards(np.array([1, 0, 1, 0]), 2, 1, 0)
    assert sorted(sorted(part) for part in parts) == [[0, 2], [1, 3]]

  def test_as_many_shards_as_examples(self):
    parts = partition.label_shards(_LABELS, 500, 2, 0)
    assert {len(part) for part in parts} == {2}

  @pytest.mark.parametrize(
    ("labels", "clients", "shards", "message"),
    [
      (_LABELS, 501, 2, "found 1002"),
      (_LABELS, 1001, 1, "found 1001"),
      (_LABELS, 0, 2, "found 0"),
      (_LABELS, 3, 0, "shards_per_client"),
      (_LABELS, -3, -2, "found -3"),
      (np.zeros(0, int), 1, 1, "found 1"),
      (np.zeros([10, 2]), 2, 2, r"\(10, 2\)"),
    ],
  )
  def test_rejects(self, labels, clients, shards, message):
    with pytest.raises(ValueError, match=message):
      partition.label_shards(labels, clients, shards, 0)


class TestDirichlet:
  def test_large_concentration_is_iid(self):
    labels = np.repeat(np.arange(4), 1000)
    parts = partition.dirichlet(labels, 10, 1e9, 0)
    counts = [np.bincount(labels[part], minlength=4) for part in parts]
    np.testing.assert_allclose(counts, 100, atol=1)

  def test_small_concentration_puts_a_label_at_one_client(self):
    labels = np.repeat(np.arange(4), 1000)
    parts = partition.dirichlet(labels, 100, 1e-6, 0, min_size=0)
    holders = [
      sum(label in labels[part] for part in parts) for label in range(4)
    ]
    assert holders == [1, 1, 1, 1]

  def test_proportions_have_the_moments_of_the_distribution(self):
    # Var p_k = (1/K)(1 - 1/K) / (K a + 1), here over 400 labels.
    clients, concentration = 5, 0.7
    labels = np.repeat(np.arange(400), 200)
    parts = partition.dirichlet(labels, clients, concentration, 0, min_size=0)
    shares = np.array([np.bincount(labels[p], minlength=400) for p in parts])
    variance = np.var(shares / 200, axis=1).mean()
    expected = (1 / 5) * (4 / 5) / (clients * concentration + 1)
    np.testing.assert_allclose(variance, expected, rtol=0.1)

  @pytest.mark.parametrize("concentration", [1e-6, 0.05, 0.5])
  @pytest.mark.parametrize("min_size", [1, 10, 33])
  def test_no_client_is_smaller_than_asked(self, concentration, min_size):
    parts = partition.dirichlet(
      _LABELS, 30, concentration, 3, min_size=min_size
    )
    assert min(map(len, parts)) >= min_size
    _assert_cover(parts, 1000)

  def test_large_enough_clients_are_left_alone(self):
    free = partition.dirichlet(_LABELS, 10, 5.0, 0, min_size=0)
    assert min(map(len, free)) >= 20
    assert _same(free, partition.dirichlet(_LABELS, 10, 5.0, 0, min_size=20))

  def test_labels_need_not_be_numbers(self):
    labels = np.array(["cat", "dog"] * 10)
    _assert_cover(partition.dirichlet(labels, 4, 1.0, 0), 20)

  @pytest.mark.parametrize(
    ("clients", "concentration", "min_size", "message"),
    [
      (1001, 0.5, 1, "num_clients"),
      (0, 0.5, 1, "num_clients"),
      (30, 0.5, 34, "need 1020 examples, found 1000"),
      (30, 0.5, -1, "min_size -1"),
      (30, 0.0, 1, "concentration"),
      (30, -1.0, 1, "concentration"),
      (30, 1e-20, 1, "concentration"),
      (30, float("inf"), 1, "concentration"),
      (30, float("nan"), 1, "concentration"),
    ],
  )
  def test_rejects(self, clients, concentration, min_size, message):
    with pytest.raises(ValueError, match=message):
      partition.dirichlet(_LABELS, clients, concentration, 0, min_size=min_size)


class TestTrainTestSplit:
  @pytest.mark.parametrize(
    ("size", "fraction", "num_test"),
    [(10, 0.2, 2), (2, 0.01, 1), (2, 0.99, 1), (3, 0.9, 2), (1000, 0.25, 250)],
  )
  def test_sizes(self, size, fraction, num_test):
    train, test = partition.train_test_split(np.arange(size), fraction, 0)
    assert (len(train), len(test)) == (size - num_test, num_test)

  def test_splits_the_indices_it_is_given(self):
    indices = np.array([40, 10, 30, 20])
    train, test = partition.train_test_split(indices, 0.5, 0)
    assert sorted([*train, *test]) == [10, 20, 30, 40]
    np.testing.assert_array_equal(indices, [40, 10, 30, 20])

  @pytest.mark.parametrize("size", [0, 1])
  def test_rejects_too_few_examples(self, size):
    with pytest.raises(ValueError, match=f"need 2 examples, found {size}"):
      partition.train_test_split(np.arange(size), 0.2, 0)

  @pytest.mark.parametrize("fraction", [0, 1, -0.1, 1.5, float("nan")])
  def test_rejects_fraction(self, fraction):
    with pytest.raises(ValueError, match="test_fraction"):
      partition.train_test_split(np.arange(10), fraction, 0)
