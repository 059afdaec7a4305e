import numpy as np
import pytest

from tasks import cuts
from tff_fair import declared

_LABELS = np.random.Generator(np.random.PCG64(7)).integers(0, 10, 1000)


def _assert_cover(parts, num_examples):
  np.testing.assert_array_equal(
    np.sort(np.concatenate(parts)), np.arange(num_examples)
  )


def _same(parts, others):
  return all(map(np.array_equal, parts, others))


class TestDirichlet:
  def test_large_concentration_is_iid(self):
    labels = np.repeat(np.arange(4), 1000)
    parts = cuts.dirichlet(labels, 10, 1e9, 0)
    counts = [np.bincount(labels[part], minlength=4) for part in parts]
    np.testing.assert_allclose(counts, 100, atol=1)

  def test_small_concentration_puts_a_label_at_one_client(self):
    labels = np.repeat(np.arange(4), 1000)
    parts = cuts.dirichlet(labels, 100, 1e-6, 0, min_size=0)
    holders = [
      sum(label in labels[part] for part in parts) for label in range(4)
    ]
    assert holders == [1, 1, 1, 1]

  def test_proportions_have_the_moments_of_the_distribution(self):
    # Var p_k = (1/K)(1 - 1/K) / (K a + 1), here over 400 labels.
    clients, concentration = 5, 0.7
    labels = np.repeat(np.arange(400), 200)
    parts = cuts.dirichlet(labels, clients, concentration, 0, min_size=0)
    shares = np.array([np.bincount(labels[p], minlength=400) for p in parts])
    variance = np.var(shares / 200, axis=1).mean()
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

  @pytest.mark.parametrize(
    ("clients", "concentration", "min_size", "field"),
    [
      (1001, 0.5, 1, "num_clients"),
      (0, 0.5, 1, "num_clients"),
      (30, 0.5, 34, "min_size"),
      (30, 0.5, -1, "min_size"),
      (30, 0.0, 1, "concentration"),
      (30, -1.0, 1, "concentration"),
      (30, 1e-20, 1, "concentration"),
      (30, float("inf"), 1, "concentration"),
      (30, float("nan"), 1, "concentration"),
    ],
  )
  def test_rejects(self, clients, concentration, min_size, field):
    with pytest.raises(declared.FieldError) as error:
      cuts.dirichlet(_LABELS, clients, concentration, 0, min_size=min_size)
    assert error.value.field == field


class TestDirichletPerClient:
  def test_clients_are_of_equal_size(self):
    parts = cuts.dirichlet_per_client(_LABELS, 30, 0.1, 0)
    assert sorted({len(part) for part in parts}) == [33, 34]

  def test_large_concentration_is_iid(self):
    labels = np.repeat(np.arange(4), 1000)
    parts = cuts.dirichlet_per_client(labels, 10, 1e9, 0)
    counts = [np.bincount(labels[part], minlength=4) for part in parts]
    np.testing.assert_allclose(counts, 100, atol=4)

  def test_small_concentration_is_one_label_while_it_lasts(self):
    labels = np.repeat(np.arange(4), 1000)
    parts = cuts.dirichlet_per_client(labels, 100, 1e-6, 0)
    kinds = [len(np.unique(labels[part])) for part in parts]
    assert np.mean(np.array(kinds) == 1) > 0.9

  @pytest.mark.parametrize(
    ("clients", "concentration", "field"),
    [
      (1001, 0.5, "num_clients"),
      (0, 0.5, "num_clients"),
      (3, 0.0, "concentration"),
    ],
  )
  def test_rejects(self, clients, concentration, field):
    with pytest.raises(declared.FieldError) as error:
      cuts.dirichlet_per_client(_LABELS, clients, concentration, 0)
    assert error.value.field == field
