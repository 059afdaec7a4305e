import numpy as np
import pandas as pd
import pytest

from tff_fair.experiments.presenting.report import curves
from tff_fair.experiments.presenting.report.curves import Curve
from tff_fair.experiments.presenting.report.task_runs import Method


class FakeRun:
  """The tables of a run."""

  def __init__(self, rounds, values, costs=None):
    self.evaluations = pd.DataFrame({"round": rounds, "value": values})
    self.costs = costs


def over_seeds(*runs, column="value"):
  method = Method("m", 0, runs)
  return curves.over_seeds(method, lambda run: run.evaluations, column)


def test_mean_and_std_over_seeds():
  curve = over_seeds(
    FakeRun([1, 2], [1.0, 4]),
    FakeRun([1, 2], [3.0, 4]),
    FakeRun([1, 2], [5, 4]),
  )
  assert curve.rounds.tolist() == [1, 2]
  assert curve.mean.tolist() == [3, 4]
  assert curve.std.tolist() == [2, 0]  # Of a sample.


def test_one_seed_has_no_std():
  assert over_seeds(FakeRun([5], [1.0])).std is None


def test_only_rounds_that_all_seeds_have():
  curve = over_seeds(
    FakeRun([3, 1, 2], [3.0, 1, 2]), FakeRun([2, 3, 4], [4, 5, 6])
  )
  assert curve.rounds.tolist() == [2, 3]
  assert curve.mean.tolist() == [3, 4]


@pytest.mark.parametrize(
  "runs",
  [
    [FakeRun([], [])],
    [FakeRun([1], [np.nan])],
    [FakeRun([1], [1]), FakeRun([2], [2])],
  ],
)
def test_nothing_in_common_is_no_curve(runs):
  assert over_seeds(*runs) is None


def test_a_column_that_one_seed_has_not_is_no_curve():
  assert over_seeds(FakeRun([1], [1]), column="other") is None


def test_values_that_are_no_numbers_are_left_open():
  curve = over_seeds(FakeRun([1, 2, 3], [1, "", 3]))
  np.testing.assert_array_equal(curve.mean, [1, np.nan, 3])
  curve = over_seeds(FakeRun([1], [np.inf]), FakeRun([1], [np.inf]))
  assert curve.mean.tolist() == [np.inf]


def costs(rounds, down, up):
  return pd.DataFrame({"round": rounds, "down": down, "up": up})


def test_costs_are_cumulated_over_rounds_in_the_mean_over_seeds():
  runs = (
    FakeRun([], [], costs([1, 2, 3], [1, 1, 1], [10, 10, 10])),
    FakeRun([], [], costs([3, 2, 1], [3, 3, 3], [10, 10, 10])),
  )
  total = curves.cumulative_cost(Method("m", 0, runs), ("down", "up"))
  assert total.rounds.tolist() == [1, 2, 3]
  assert total.mean.tolist() == [12, 24, 36]


def test_without_costs_of_one_seed_there_are_none():
  with_costs = FakeRun([], [], costs([1], [1], [1]))
  for others in ([FakeRun([], [])], [FakeRun([], [], costs([1], [1], [None]))]):
    method = Method("m", 0, (with_costs, *others))
    assert curves.cumulative_cost(method, ("down", "up")) is None
  assert (
    curves.cumulative_cost(Method("m", 0, (with_costs,)), ("more",)) is None
  )


def test_a_curve_against_costs():
  curve = Curve(np.array([0, 2, 5]), np.zeros(3), None)
  known = Curve(np.array([1, 2, 3]), np.array([4.0, 8, 12]), None)
  np.testing.assert_array_equal(
    curves.costs_by_round(curve, known), [0, 8, np.nan]
  )


def test_windows_are_means_at_their_last_round():
  curve = Curve(np.arange(1, 8), np.arange(7.0), None)
  found, length = curves.windows(curve, 3)
  assert length == 3
  assert found.rounds.tolist() == [3, 6, 7]
  assert found.mean.tolist() == [1, 4, 6]


def test_few_rounds_are_windows_of_their_own():
  curve = Curve(np.array([4, 9]), np.array([1.0, np.nan]), None)
  found, length = curves.windows(curve, 2)
  assert length == 1
  assert found.rounds.tolist() == [4, 9]
  np.testing.assert_array_equal(found.mean, [1, np.nan])


# Tests of the lines of curves, their scales and their words.


def line(y, std=None, label="m", **settings):
  spread = None if std is None else np.array(std)
  curve = Curve(np.arange(1, len(y) + 1), np.array(y, float), spread)
  return curves.line(Method(label, 3, ()), curve, **settings)


def test_a_line_has_the_values_whose_costs_are_known():
  known = Curve(np.array([1, 3]), np.array([5.0, 7]), None)
  found = line([0.1, 0.2, 0.3], [0.01, 0.02, 0.03], costs=known, factor=100)
  assert (found.label, found.style.number) == ("m", 3)
  assert found.x.tolist() == [5, 7]
  np.testing.assert_allclose(found.y, [10, 30])
  np.testing.assert_allclose(found.spread, [1, 3])


def test_x_goes_from_zero_to_the_end_of_the_longest_line():
  found = curves.x_scale([line([1] * 4), line([1] * 9)], is_whole=True)
  assert (found.low, found.high) == (0, 9)
  assert all(tick == int(tick) for tick in found.ticks)


def test_y_covers_bands_within_its_bounds():
  lines = [line([2, 50], std=[5, 5]), line([60, 98], std=[1, 9])]
  found = curves.y_scale(lines, is_percent=True)
  assert (found.low, found.high) == (0, 100)
  found = curves.y_scale([line([40, 50], std=[5, 5])], is_percent=True)
  assert 0 < found.low <= 35
  assert 55 <= found.high < 100


def test_values_far_apart_have_a_logarithmic_scale_but_for_percent():
  lines = [line([0.01, np.inf, 10])]
  found = curves.y_scale(lines, is_percent=False)
  assert found.is_logarithmic
  assert (found.low, found.high) == (0.01, 10)
  assert not curves.y_scale(lines, is_percent=True).is_logarithmic


def test_lines_without_a_finite_value_have_a_scale():
  found = curves.y_scale([line([np.inf, np.nan])], is_percent=False)
  assert found.low < found.high


def test_the_description_says_where_lines_end():
  lines = [line([1, 2.346], label="a"), line([1, np.nan], label="b")]
  assert curves.describe_ends(lines, "the end", " %") == (
    "At the end: a 2.35 %, b not finite."
  )
