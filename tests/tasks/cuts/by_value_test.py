import numpy as np
import pytest

from tasks import cuts


class TestByValue:
  def test_a_client_for_each_value_in_order(self):
    names, parts = cuts.by_value(np.array(["b", "a", "b", "c"]))
    assert names == ["a", "b", "c"]
    assert [part.tolist() for part in parts] == [[1], [0, 2], [3]]
    assert all(part.dtype == np.int64 for part in parts)

  def test_rejects_nothing(self):
    with pytest.raises(ValueError, match="no examples"):
      cuts.by_value(np.zeros(0))
