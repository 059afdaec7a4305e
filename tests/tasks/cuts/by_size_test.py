import numpy as np
import pytest

from tasks import cuts
from tff_fair import declared


class TestIid:
  def test_parts_differ_by_one_at_most(self):
    sizes = [len(part) for part in cuts.iid(100, 7, 0)]
    assert sorted(set(sizes)) == [14, 15]

  def test_is_not_the_order_of_the_examples(self):
    assert not np.array_equal(
      np.concatenate(cuts.iid(100, 7, 0)), np.arange(100)
    )

  @pytest.mark.parametrize("num_clients", [0, -1, 11])
  def test_rejects(self, num_clients):
    with pytest.raises(declared.FieldError) as error:
      cuts.iid(10, num_clients, 0)
    assert (error.value.field, error.value.value) == (
      "num_clients",
      num_clients,
    )


class TestPowerLaw:
  def test_sizes_fall_with_the_rank(self):
    parts = cuts.power_law(3100, 5, 1.0, 0, min_size=0)
    sizes = [len(part) for part in parts]
    expected = 3100 / np.arange(1, 6) / sum(1 / np.arange(1, 6))
    assert sizes != sorted(sizes, reverse=True)
    np.testing.assert_allclose(sorted(sizes, reverse=True), expected, atol=1)

  def test_exponent_zero_is_even(self):
    sizes = [len(part) for part in cuts.power_law(100, 7, 0.0, 0)]
    assert sorted(set(sizes)) == [14, 15]

  @pytest.mark.parametrize("exponent", [0.0, 3.0, 1000.0])
  def test_no_client_is_smaller_than_asked(self, exponent):
    parts = cuts.power_law(100, 10, exponent, 0, min_size=10)
    assert [len(part) for part in parts] == [10] * 10

  @pytest.mark.parametrize(
    ("clients", "exponent", "min_size", "field"),
    [
      (11, 1.0, 1, "num_clients"),
      (5, 1.0, 3, "min_size"),
      (5, -1.0, 1, "exponent"),
      (5, float("nan"), 1, "exponent"),
      (5, float("inf"), 1, "exponent"),
    ],
  )
  def test_rejects(self, clients, exponent, min_size, field):
    with pytest.raises(declared.FieldError) as error:
      cuts.power_law(10, clients, exponent, 0, min_size=min_size)
    assert error.value.field == field
