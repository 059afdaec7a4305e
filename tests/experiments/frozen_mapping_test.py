import pickle
from typing import Any

import pytest

from tff_fair.experiments.frozen_mapping import FrozenMapping


def test_it_reads_like_a_dict():
  items = {"a": 1, "b": None}
  frozen = FrozenMapping(items)
  assert frozen == items
  assert list(frozen) == ["a", "b"]
  assert len(frozen) == 2
  assert frozen["a"] == 1
  assert repr(frozen) == repr(items)
  assert FrozenMapping() == {}
  with pytest.raises(KeyError):
    _ = frozen["c"]


def test_it_does_not_change_with_what_it_was_made_of():
  items = {"a": 1}
  frozen: Any = FrozenMapping(items)
  items["a"] = 2
  assert frozen["a"] == 1
  with pytest.raises(TypeError):
    frozen["a"] = 2


def test_the_order_changes_no_hash():
  one, other = FrozenMapping({"a": 1, "b": 2}), FrozenMapping({"b": 2, "a": 1})
  assert one == other
  assert hash(one) == hash(other)
  assert len({one, other, FrozenMapping({"a": 1})}) == 2
  assert pickle.loads(pickle.dumps(one)) == one
