import pytest

from tff_fair.experiments.spec.settings import bounds


@pytest.mark.parametrize(
  ("value", "normal", "ends"),
  [
    (7, 7, (7, 7)),
    ("5", 5, (5, 5)),
    ("5-15", "5-15", (5, 15)),
    (" 5 - 15 ", "5-15", (5, 15)),
    ("5-5", 5, (5, 5)),
    ((5, 15), "5-15", (5, 15)),
    ((5, 5), 5, (5, 5)),
    (2**31 - 1, 2**31 - 1, (2**31 - 1, 2**31 - 1)),
  ],
)
def test_numbers_and_ranges_are_read(value, normal, ends):
  found = bounds.normal_range(value)
  assert found == normal
  assert type(found) is type(normal)
  assert bounds.range_ends(found) == ends


@pytest.mark.parametrize(
  "value",
  [
    *("", "x", "0", "-3", "0-5", "5-1", "5-", "1.5", "1-2-3", "1-2147483648"),
    *(0, -1, 1.5, True, None, (1, 2, 3), (5, 1), "٥-"),
  ],
)
def test_others_are_refused(value):
  assert bounds.normal_range(value) in (value, "5-1")
  with pytest.raises(ValueError, match="5 or 5-15"):
    bounds.range_ends(value)
