"""Tests of the lines of curves, their scales and their words."""

import numpy as np

from tff_fair.experiments.reporting import curve_lines
from tff_fair.experiments.reporting.curves import Curve
from tff_fair.experiments.reporting.methods import Method


def line(y, x=None, std=None, factor=1, label="m"):
  rounds = np.arange(1, len(y) + 1)
  spread = None if std is None else np.array(std)
  curve = Curve(rounds, np.array(y, float), spread)
  places = rounds.astype(float) if x is None else np.array(x, float)
  return curve_lines.line(Method(label, 3, ()), curve, places, factor=factor)


def test_a_line_has_the_values_that_have_a_place():
  found = line([0.1, 0.2, 0.3], [5, np.nan, 7], [0.01, 0.02, 0.03], factor=100)
  assert (found.label, found.number) == ("m", 3)
  assert found.x.tolist() == [5, 7]
  np.testing.assert_allclose(found.y, [10, 30])
  np.testing.assert_allclose(found.spread, [1, 3])


def test_x_goes_from_zero_to_the_end_of_the_longest_line():
  found = curve_lines.x_scale([line([1] * 4), line([1] * 9)], is_whole=True)
  assert (found.low, found.high) == (0, 9)
  assert all(tick == int(tick) for tick in found.ticks)


def test_y_covers_bands_within_its_bounds():
  lines = [line([2, 50], std=[5, 5]), line([60, 98], std=[1, 9])]
  found = curve_lines.y_scale(lines, is_percent=True)
  assert (found.low, found.high) == (0, 100)
  found = curve_lines.y_scale([line([40, 50], std=[5, 5])], is_percent=True)
  assert 0 < found.low <= 35
  assert 55 <= found.high < 100


def test_values_far_apart_have_a_logarithmic_scale_but_for_percent():
  lines = [line([0.01, np.inf, 10])]
  found = curve_lines.y_scale(lines, is_percent=False)
  assert found.is_logarithmic
  assert (found.low, found.high) == (0.01, 10)
  assert not curve_lines.y_scale(lines, is_percent=True).is_logarithmic


def test_lines_without_a_finite_value_have_a_scale():
  found = curve_lines.y_scale([line([np.inf, np.nan])], is_percent=False)
  assert found.low < found.high


def test_the_description_says_where_lines_end():
  lines = [line([1, 2.346], label="a"), line([1, np.nan], label="b")]
  assert curve_lines.describe(lines, "the end", " %") == (
    "At the end: a 2.35 %, b not finite."
  )
