import pytest

from tff_fair.experiments import number_range


@pytest.mark.parametrize(
  ("value", "normal", "bounds"),
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
def test_numbers_and_ranges_are_read(value, normal, bounds):
  found = number_range.normal(value)
  assert found == normal
  assert type(found) is type(normal)
  assert number_range.is_valid(found)
  assert number_range.bounds(found) == bounds


@pytest.mark.parametrize(
  "value",
  [
    *("", "x", "0", "-3", "0-5", "5-1", "5-", "1.5", "1-2-3", "1-2147483648"),
    *(0, -1, 1.5, True, None, (1, 2, 3), (5, 1), "٥-"),
  ],
)
def test_others_are_refused(value):
  assert number_range.normal(value) in (value, "5-1")
  assert not number_range.is_valid(value)
  with pytest.raises(ValueError, match="5 or 5-15"):
    number_range.bounds(value)
