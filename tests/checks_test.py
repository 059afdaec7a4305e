"""Tests of the checks of arguments and of what they say."""

import math
from typing import Any

import numpy as np
import pytest

from tff_fair import checks

pytestmark = pytest.mark.pure


@pytest.mark.parametrize(
  "value", [0, 1, 0.5, np.float32(0.5), np.float64(1), np.int64(0), -0.0]
)
def test_numbers_in_the_interval_pass(value):
  checks.check_number("x", value, minimum=0, maximum=1)


@pytest.mark.parametrize("value", [-1e308, 0, 1e308, 10**300])
def test_by_default_all_finite_numbers_pass(value):
  checks.check_number("x", value)


@pytest.mark.parametrize(
  ("bounds", "value", "interval"),
  [
    ({}, math.inf, "(-inf, inf)"),
    ({}, math.nan, "(-inf, inf)"),
    ({"minimum": 0}, -1e-300, "[0, inf)"),
    ({"minimum": 0}, math.inf, "[0, inf)"),
    ({"minimum": 0}, math.nan, "[0, inf)"),
    ({"maximum": 1}, 1.0000001, "(-inf, 1]"),
    ({"minimum": 0, "maximum": 1}, 2, "[0, 1]"),
    ({"minimum": 0, "exclude_minimum": True}, 0, "(0, inf)"),
    ({"maximum": 1, "exclude_maximum": True}, 1.0, "(-inf, 1)"),
    (
      {
        "minimum": 0,
        "maximum": 0.5,
        "exclude_minimum": True,
        "exclude_maximum": True,
      },
      0.5,
      "(0, 0.5)",
    ),
  ],
)
def test_numbers_outside_are_named_with_the_interval(bounds, value, interval):
  with pytest.raises(ValueError) as raised:  # noqa: PT011
    checks.check_number("alpha", value, **bounds)
  assert str(raised.value) == f"Expected alpha in {interval}, found {value!r}."


def test_excluded_bounds_let_their_neighbours_pass():
  checks.check_number("x", 1e-300, minimum=0, exclude_minimum=True)
  checks.check_number("x", 1 - 1e-15, maximum=1, exclude_maximum=True)


@pytest.mark.parametrize(
  ("value", "in_float32"),
  [(1e39, "inf"), (-(10**39), "-inf"), (1e-46, "0"), (1 - 1e-15, "1")],
)
def test_in_float32_a_number_must_be_finite_and_no_excluded_bound(
  value, in_float32
):
  bounds: dict[str, Any] = {"exclude_minimum": True, "exclude_maximum": True}
  if abs(value) < 1:
    bounds |= {"minimum": 0, "maximum": 1}
  checks.check_number("rate", value, **bounds)
  with pytest.raises(checks.OptionError) as raised:
    checks.check_number("rate", value, in_float32=True, **bounds)
  assert str(raised.value).endswith(
    f"found {value!r}, which is {in_float32} in float32."
  )


def test_in_float32_bounds_that_are_allowed_pass_before_they_are_rounded():
  # 0.7 is less in float32, and 0.3 is more.
  checks.check_number("x", 0.7, minimum=0.7, in_float32=True)
  checks.check_number("x", 0.3, maximum=0.3, in_float32=True)
  checks.check_number("x", 1e-46, minimum=0, in_float32=True)
  with pytest.raises(ValueError, match=r"found -1e-300\.$"):
    checks.check_number("x", -1e-300, minimum=0, in_float32=True)


@pytest.mark.parametrize(
  "value", ["1", None, True, np.bool_(True), 1j, [1.0], np.array([1.0])]
)
def test_what_is_no_number_is_named_with_its_type(value):
  with pytest.raises(TypeError, match="alpha to be a number, found") as raised:
    checks.check_number("alpha", value)
  assert type(value).__name__ in str(raised.value)


def test_an_integer_beyond_the_range_of_floats_is_out_of_any_interval():
  with pytest.raises(ValueError, match="Expected alpha in"):
    checks.check_number("alpha", 10**400)
  with pytest.raises(ValueError, match="Expected alpha in"):
    checks.check_number("alpha", -(10**400), in_float32=True)
  assert checks.as_float32(10**400) == math.inf


@pytest.mark.parametrize("value", [3, 4, 10**30, np.int32(3), np.uint8(200)])
def test_integers_from_the_minimum_on_pass(value):
  checks.check_integer("n", value, minimum=3)


@pytest.mark.parametrize("value", [2, -(10**30), np.int64(0)])
def test_integers_below_the_minimum_are_named(value):
  with pytest.raises(ValueError, match=f"n to be 3 or more, found {value}"):
    checks.check_integer("n", value, minimum=3)


@pytest.mark.parametrize("value", [3.0, "3", None, True, np.float64(3), [3]])
def test_what_is_no_integer_is_named_with_its_type(value):
  with pytest.raises(TypeError, match="n to be an integer, found") as raised:
    checks.check_integer("n", value, minimum=3)
  assert type(value).__name__ in str(raised.value)


def test_booleans():
  checks.check_boolean("b", True)
  checks.check_boolean("b", False)
  for value in (1, 0, None, "True"):
    with pytest.raises(TypeError, match="b to be True or False, found"):
      checks.check_boolean("b", value)  # type: ignore[arg-type]


def test_choices():
  checks.check_choice("c", "one", ("one", "two"))
  for value in ("three", "", None, "One", 1):
    with pytest.raises(ValueError, match="c to be one of one, two; found"):
      checks.check_choice("c", value, ("one", "two"))  # type: ignore[arg-type]
