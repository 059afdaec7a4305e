"""Tests of `tff_fair.experiments.number_text`."""

import math

import pytest

from tff_fair.experiments import number_text


def test_numbers_as_they_are_read():
  assert number_text.grouped(-1234.5, 2) == "−1,234.50"
  assert number_text.grouped(-0.001, 2) == "0.00"
  assert number_text.short(-0.01, 1, "+") == "+0.0"
  assert number_text.percent(-0.0001) == "0.0"


@pytest.mark.parametrize(
  ("counts", "text"),
  [([1], "1 of 8"), ([1, 0], "0 or 1 of 8"), ([0, 3, 1], "0 to 3 of 8")],
)
def test_numbers_of_clients_over_seeds_are_numbers_of_clients(counts, text):
  assert number_text.how_many(counts, 8) == text


@pytest.mark.parametrize(
  ("seconds", "text"),
  [
    (59.4, "59 s"),
    (90, "1.5 min"),
    (3599, "1 h 0 min"),
    (7500, "2 h 5 min"),
    (math.nan, "unknown"),
  ],
)
def test_durations(seconds, text):
  assert number_text.duration(seconds) == text


@pytest.mark.parametrize(
  ("value", "sign", "text"),
  [
    (-0.001, "", "0.00"),
    (1.5, "+", "+1.50"),
    (-2e10, "", "-2e+10"),
    (math.inf, "", "inf"),
  ],
)
def test_numbers_with_fixed_decimals(value, sign, text):
  assert number_text.fixed(value, 2, sign) == text
