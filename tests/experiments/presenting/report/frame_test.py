import re

import numpy as np
import pytest

from tff_fair.experiments.presenting.report.frame import (
  band_path,
  box_path,
  line_path,
)


def points(path):
  """Returns the points of an SVG path of moves and relative lines."""
  place, found = np.zeros(2), []
  for command, text in re.findall(r"([MlhvzZ])([^MlhvzZ]*)", path):
    numbers = [float(n) for n in re.findall(r"-?\d*\.?\d+", text)]
    if command == "M":
      place = np.array(numbers)
      found.append(place)
    elif command == "l":
      for step in np.reshape(numbers, [-1, 2]):
        place = place + step
        found.append(place)
    elif command in "hv":
      place = place + np.array(
        [numbers[0], 0] if command == "h" else [0, *numbers]
      )
      found.append(place)
  return np.array(found)


def test_a_line_goes_through_all_points_to_a_tenth_of_a_pixel():
  generator = np.random.default_rng(0)
  x, y = (
    np.sort(generator.uniform(0, 400, 500)),
    generator.uniform(-5, 300, 500),
  )
  found = points(line_path(x, y))
  # The end is exact, too: rounding errors do not add up.
  np.testing.assert_allclose(found, np.stack([x, y], axis=1), atol=0.051)


def test_a_line_is_interrupted_where_there_is_nothing():
  x = np.arange(6.0)
  y = np.array([np.nan, 1, 2, np.nan, 5, np.inf])
  assert line_path(x, y) == "M1 1l1 1M4 5h0"


@pytest.mark.parametrize("count", [0, 3])
def test_nothing_is_an_empty_path(count):
  nothing = np.full(count, np.nan)
  assert line_path(nothing, nothing) == ""
  assert band_path(nothing, nothing, nothing) == ""


def test_a_band_goes_there_and_back():
  x = np.array([0.0, 1, 2])
  found = points(band_path(x, x, x + 10))
  assert found.tolist() == [[0, 0], [1, 1], [2, 2], [2, 12], [1, 11], [0, 10]]


def test_a_band_of_one_point_is_nothing():
  assert band_path(*np.array([[1.0], [2.0], [3.0]])) == ""


def test_a_box():
  found = points(box_path(1.25, 2, 10, 0.5))
  np.testing.assert_allclose(
    found, [[1.2, 2], [11.2, 2], [11.2, 2.5], [1.2, 2.5]], atol=0.11
  )
  assert box_path(0, 0, 0.5, 0.1) == "M0 0h.5v.1h-.5z"
