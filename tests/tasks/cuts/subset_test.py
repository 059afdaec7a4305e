import numpy as np
import pytest

from tasks import cuts
from tff_fair import declared


def test_takes_all():
  everyone = cuts.random_subset(5, None, 0, what="users")
  np.testing.assert_array_equal(everyone, np.arange(5))


def test_chooses_different_ones_in_order():
  chosen = cuts.random_subset(100, 20, 3, what="users")
  assert len(chosen) == 20
  assert (np.diff(chosen) > 0).all()
  assert chosen[0] >= 0
  assert chosen[-1] < 100
  np.testing.assert_array_equal(
    chosen, cuts.random_subset(100, 20, 3, what="users")
  )
  other = cuts.random_subset(100, 20, 4, what="users")
  assert not np.array_equal(chosen, other)


def test_too_few():
  with pytest.raises(declared.FieldError) as error:
    cuts.random_subset(3, 4, 0, what="users")
  assert (error.value.field, error.value.value) == ("num_clients", 4)
