import numpy as np
import pytest

from tasks import cuts
from tff_fair import declared

_LABELS = np.random.Generator(np.random.PCG64(7)).integers(0, 10, 1000)


def _assert_cover(parts, num_examples):
  np.testing.assert_array_equal(
    np.sort(np.concatenate(parts)), np.arange(num_examples)
  )


class TestLabelShards:
  def test_clients_hold_few_labels(self):
    labels = np.repeat(np.arange(10), 60)
    parts = cuts.label_shards(labels, 30, 2, 0)
    # 60 shards of 10 in labels of 60: no shard spans two labels.
    assert max(len(np.unique(labels[part])) for part in parts) <= 2
    assert {len(part) for part in parts} == {20}

  def test_shards_are_dealt_at_random(self):
    labels = np.repeat(np.arange(10), 60)
    parts = cuts.label_shards(labels, 30, 2, 0)
    hands = {tuple(np.unique(labels[part])) for part in parts}
    assert any(high - low > 1 for low, *rest in hands for high in rest)

  def test_examples_within_a_label_are_shuffled(self):
    parts = cuts.label_shards(np.zeros(100, int), 1, 1, 0)
    assert not np.array_equal(parts[0], np.arange(100))

  def test_one_shard_each(self):
    parts = cuts.label_shards(np.array([1, 0, 1, 0]), 2, 1, 0)
    assert sorted(sorted(part) for part in parts) == [[0, 2], [1, 3]]

  def test_as_many_shards_as_examples(self):
    parts = cuts.label_shards(_LABELS, 500, 2, 0)
    assert {len(part) for part in parts} == {2}

  @pytest.mark.parametrize(
    ("labels", "clients", "shards", "field"),
    [
      (_LABELS, 501, 2, "shards_per_client"),
      (_LABELS, 1001, 1, "num_clients"),
      (_LABELS, 0, 2, "num_clients"),
      (_LABELS, 3, 0, "shards_per_client"),
      (_LABELS, -3, -2, "num_clients"),
      (np.zeros(0, int), 1, 1, "num_clients"),
      (np.zeros([10, 2]), 2, 2, "labels"),
    ],
  )
  def test_rejects(self, labels, clients, shards, field):
    with pytest.raises(declared.FieldError) as error:
      cuts.label_shards(labels, clients, shards, 0)
    assert error.value.field == field


class TestFewLabels:
  def test_clients_hold_as_many_labels_as_asked(self):
    labels = np.repeat(np.arange(10), 1000)
    parts = cuts.few_labels(labels, 100, 5, 0)
    assert {len(np.unique(labels[part])) for part in parts} == {5}

  def test_holders_share_a_label_evenly(self):
    labels = np.repeat(np.arange(10), 1000)
    parts = cuts.few_labels(labels, 100, 5, 0)
    counts = np.array(
      [np.bincount(labels[part], minlength=10) for part in parts]
    )
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

  @pytest.mark.parametrize(
    ("clients", "labels_per_client", "field"),
    [
      (30, 0, "labels_per_client"),
      (30, 11, "labels_per_client"),
      (0, 1, "num_clients"),
    ],
  )
  def test_rejects(self, clients, labels_per_client, field):
    with pytest.raises(declared.FieldError) as error:
      cuts.few_labels(_LABELS, clients, labels_per_client, 0)
    assert error.value.field == field


class TestInProportion:
  def test_labels_lie_as_in_the_first_data_set(self):
    labels = np.repeat(np.arange(10), 600)
    others = np.repeat(np.arange(10)[::-1], 100)
    parts = cuts.dirichlet(labels, 10, 0.5, 0)
    found = cuts.in_proportion(parts, labels, others, 0)
    for part, other in zip(parts, found, strict=True):
      np.testing.assert_allclose(
        np.bincount(others[other], minlength=10),
        np.bincount(labels[part], minlength=10) / 6,
        atol=1,
      )
    _assert_cover(found, 1000)

  def test_leaves_out_labels_that_no_client_has(self):
    parts = [np.array([0]), np.array([1])]
    found = cuts.in_proportion(
      parts, np.array([3, 3]), np.array([4, 3, 3, 5]), 0
    )
    assert sorted(map(int, np.concatenate(found))) == [1, 2]

  def test_client_without_any(self):
    parts = [np.arange(9), np.array([9])]
    found = cuts.in_proportion(parts, np.zeros(10), np.zeros(2), 0)
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
