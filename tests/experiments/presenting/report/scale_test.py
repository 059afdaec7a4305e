import math

import numpy as np
import pytest

from tff_fair.experiments.presenting.report import scale


@pytest.mark.parametrize(
  ("low", "high", "ticks"),
  [
    (0, 100, (0, 20, 40, 60, 80, 100)),
    (3, 97, (0, 20, 40, 60, 80, 100)),
    (0, 1, (0, 0.2, 0.4, 0.6, 0.8, 1)),
    (0.1, 0.3, (0.1, 0.15, 0.2, 0.25, 0.3)),
    (-1, 1, (-1, -0.5, 0, 0.5, 1)),
    (61.2, 63.9, (61, 61.5, 62, 62.5, 63, 63.5, 64)),
    (0, 1e-9, (0, 2e-10, 4e-10, 6e-10, 8e-10, 1e-9)),
    (1e6, 6e6, (1e6, 2e6, 3e6, 4e6, 5e6, 6e6)),
  ],
)
def test_ticks_are_round_and_cover_the_range(low, high, ticks):
  found = scale.linear(low, high)
  assert found.ticks == ticks
  assert (found.low, found.high) == (ticks[0], ticks[-1])


@pytest.mark.parametrize("low", [-7.3, 0, 0.001, 12345])
@pytest.mark.parametrize("length", [1e-6, 0.3, 1, 7, 99, 1e7])
def test_any_range_has_few_ticks_that_are_multiples_of_their_step(low, length):
  found = scale.linear(low, low + length)
  assert 3 <= len(found.ticks) <= 9
  assert found.low <= low + 1e-9 * length
  assert found.high >= low + length * (1 - 1e-9)
  steps = np.diff(found.ticks)
  np.testing.assert_allclose(steps, steps[0], rtol=1e-3)
  assert len(set(found.labels)) == len(found.ticks) or length < 1e-5


@pytest.mark.parametrize("value", [0, 5, -5, 1e-3, 100])
def test_a_single_value_has_room_around_it(value):
  found = scale.linear(value, value)
  assert found.low < value < found.high


def test_a_single_value_at_its_bound_has_room_on_the_other_side():
  found = scale.linear(100, 100, bounds=(0, 100))
  assert found.low < 100 == found.high
  assert found.ticks[-1] == 100
  assert scale.linear(0, 0, bounds=(0, 100)).low == 0


@pytest.mark.parametrize("bad", [(math.nan, 1), (0, math.inf), (2, 1)])
def test_no_range_is_no_error(bad):
  found = scale.linear(*bad)
  assert found.low < found.high


def test_a_tight_scale_ends_where_the_values_do():
  found = scale.linear(0, 201, is_tight=True)
  assert (found.low, found.high) == (0, 201)
  assert found.ticks == (0, 50, 100, 150, 200)


def test_points_at_the_ends_have_room_within_the_bounds():
  found = scale.with_margins(20, 80, bounds=(0, 100))
  assert found.low < 20
  assert found.high > 80
  found = scale.with_margins(0, 100, bounds=(0, 100))
  assert (found.low, found.high) == (0, 100)


@pytest.mark.parametrize("last", [1, 2, 3, 10, 15, 201, 1000])
def test_ticks_of_rounds_are_whole(last):
  ticks = scale.linear(0, last, is_tight=True, is_whole=True).ticks
  assert all(tick == int(tick) for tick in ticks)
  assert ticks[0] == 0
  assert len(ticks) >= 2


def test_labels_have_the_decimals_that_one_of_them_needs():
  assert scale.linear(0, 1).labels[:2] == ("0.0", "0.2")
  assert scale.linear(-2500, 5000).labels[:2] == ("−4,000", "−2,000")
  assert "2.50" in scale.linear(2, 3.25, num_ticks=5).labels


def test_places_are_shares_of_the_range():
  found = scale.linear(0, 10)
  values = [0, 5, 20, math.nan, math.inf]
  np.testing.assert_allclose(found.places(values), [0, 0.5, 2, np.nan, np.nan])


def test_a_range_of_powers_is_logarithmic():
  found = scale.logarithmic(0.02, 70)
  assert found is not None
  assert found.ticks == pytest.approx((0.01, 0.1, 1, 10, 100))
  assert found.labels == ("0.01", "0.1", "1", "10", "100")
  np.testing.assert_allclose(
    found.places([0.01, 1, 100, 0, -1]), [0, 0.5, 1, np.nan, np.nan]
  )
  assert len(scale.logarithmic(1e-8, 1e30).ticks) <= 8


@pytest.mark.parametrize("ends", [(0, 1e9), (1, 99), (-1, 100), (math.nan, 1)])
def test_other_ranges_are_not(ends):
  assert scale.logarithmic(*ends) is None


@pytest.mark.parametrize(
  ("largest", "names", "unit"),
  [
    (0, scale.BYTES, (1, "B")),
    (999, scale.BYTES, (1, "B")),
    (1000, scale.BYTES, (1e3, "kB")),
    (2.5e9, scale.BYTES, (1e9, "GB")),
    (1e15, scale.BYTES, (1e15, "PB")),
    (1e30, scale.BYTES, (1e18, "EB")),
    (math.nan, scale.BYTES, (1, "B")),
    (12, scale.COUNTS, (1, "")),
    (3e10, scale.COUNTS, (1e9, "10⁹")),
  ],
)
def test_units_have_one_to_three_whole_digits(largest, names, unit):
  assert scale.unit(largest, names) == unit
