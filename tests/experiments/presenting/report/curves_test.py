"""Tests of curves: means over seeds, scales, labels and line charts."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from tests.experiments.presenting.report.page_parts import with_class
from tff_fair.experiments.presenting.report import curves, scale, task_runs
from tff_fair.experiments.presenting.report.curves import Curve, Line
from tff_fair.experiments.presenting.report.frame import Frame
from tff_fair.experiments.presenting.report.task_runs import Method


class FakeRun:
  """A run that has only tables."""

  def __init__(self, rounds, values, costs=None):
    self.evaluations = pd.DataFrame({"round": rounds, "value": values})
    self.costs = costs


def over_seeds(*runs, column="value"):
  method = Method("m", 0, runs)
  return curves.over_seeds(method, lambda run: run.evaluations, column)


@pytest.mark.parametrize(
  ("runs", "rounds", "mean", "std"),
  [
    # The standard deviation is that of a sample, with n - 1.
    (
      [([1, 2], [1, 4]), ([1, 2], [3, 4]), ([1, 2], [5, 4])],
      *([1, 2], [3, 4], [2, 0]),
    ),
    ([([5], [1.0])], [5], [1], None),
    # The means are only of rounds that all seeds have.
    (
      [([3, 1, 2], [3, 1, 2]), ([2, 3, 4], [4, 5, 6])],
      *([2, 3], [3, 4], [2**0.5] * 2),
    ),
    ([([1, 2, 3], [1, "", 3])], [1, 2, 3], [1, np.nan, 3], None),
    ([([1], [np.inf]), ([1], [np.inf])], [1], [np.inf], [np.nan]),
  ],
)
def test_a_curve_is_over_the_rounds_that_all_seeds_have(
  runs, rounds, mean, std
):
  curve = over_seeds(*(FakeRun(*run) for run in runs))
  assert curve.rounds.tolist() == rounds
  np.testing.assert_array_equal(curve.mean, mean)
  if std is None:
    assert curve.std is None
  else:
    np.testing.assert_allclose(curve.std, std)


@pytest.mark.parametrize(
  ("runs", "column"),
  [
    ([FakeRun([], [])], "value"),
    ([FakeRun([1], [np.nan])], "value"),
    ([FakeRun([1], [1]), FakeRun([2], [2])], "value"),
    ([FakeRun([1], [1])], "other"),
  ],
)
def test_nothing_in_common_is_no_curve(runs, column):
  assert over_seeds(*runs, column=column) is None


def costs(rounds, down, up):
  table = pd.DataFrame({"round": rounds, "down": down, "up": up})
  return FakeRun([], [], table)


def total_of(*runs, columns=("down", "up")):
  return curves.cumulative_cost(Method("m", 0, runs), columns)


def test_costs_are_cumulated_over_rounds_in_the_mean_over_seeds():
  total = total_of(
    costs([1, 2, 3], [1, 1, 1], [10, 10, 10]),
    costs([3, 2, 1], [3, 3, 3], [10, 10, 10]),
  )
  assert total.rounds.tolist() == [1, 2, 3]
  assert total.mean.tolist() == [12, 24, 36]


def test_without_costs_of_one_seed_there_are_none():
  known = costs([1], [1], [1])
  for other in (FakeRun([], []), costs([1], [1], [None])):
    assert total_of(known, other) is None
  assert total_of(known, columns=("more",)) is None


def test_a_curve_against_costs():
  curve = Curve(np.array([0, 2, 5]), np.zeros(3), None)
  known = Curve(np.array([1, 2, 3]), np.array([4.0, 8, 12]), None)
  np.testing.assert_array_equal(
    curves.costs_by_round(curve, known), [0, 8, np.nan]
  )


@pytest.mark.parametrize(
  ("rounds", "values", "limit", "length", "ends", "means"),
  [
    (range(1, 8), range(7), 3, 3, [3, 6, 7], [1, 4, 6]),
    ([4, 9], [1.0, np.nan], 2, 1, [4, 9], [1, np.nan]),
    ([4, 9, 11], [1.0, np.nan, 5], 2, 2, [9, 11], [1, 5]),
  ],
)
def test_windows_are_means_at_their_last_round(
  rounds, values, limit, length, ends, means
):
  curve = Curve(np.array(rounds), np.array(values, float), None)
  found, found_length = curves.windows(curve, limit)
  assert found_length == length
  assert found.rounds.tolist() == ends
  np.testing.assert_array_equal(found.mean, means)


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


# Tests of how a chart draws lines, and thins out their points.


@pytest.mark.parametrize("count", [0, 1, 2, 49, 50])
def test_few_points_are_all_kept(count):
  x = np.arange(count)
  np.testing.assert_array_equal(curves.downsample(x, x, 50), x)


@pytest.mark.parametrize("count", [51, 60, 1000, 12345])
def test_of_many_the_ends_and_peaks_are_kept(count):
  x = np.arange(count, dtype=float)
  y = np.sin(x / count)
  peak, valley = count // 3, count // 2
  y[peak], y[valley] = 10, -10
  kept = curves.downsample(x, y, 50)
  assert len(kept) == 50
  assert len(set(kept)) == 50
  np.testing.assert_array_equal(kept, np.sort(kept))
  assert {0, peak, valley, count - 1} <= set(kept.tolist())


def test_a_point_among_missing_values_is_kept():
  y = np.full(200, np.nan)
  y[77] = 1
  assert 77 in curves.downsample(np.arange(200.0), y, 10)


def drawing(lines, **settings):
  axis = scale.linear(0, 100)
  chart = curves.draw(
    lines,
    Frame(axis, axis, x_label="round"),
    identifier="i",
    title="t",
    description="d",
    x_name="round",
    y_unit=" %",
    **settings,
  )
  return ET.fromstring(chart.__html__())


def flat(count=5, *, number=0, spread=None, y=50.0, label="<a>"):
  x = np.linspace(0, 100, count)
  if spread is not None:
    spread = np.full(count, spread)
  return Line(label, task_runs.style(number), x, np.full(count, y), spread)


def test_markers_and_the_chart_say_what_they_are():
  svg = drawing([flat(spread=1.5)])
  assert svg.get("role") == "img"
  texts = {e.get("id"): e.text for e in svg if e.get("id")}
  ids = svg.get("aria-labelledby").split()
  assert [texts[name] for name in ids] == ["t", "d"]
  titles = [e.find("title").text for e in with_class(svg, "marker")]
  assert titles[1] == "<a>, round 25: 50.00 ± 1.50 %"
  assert len(titles) == 5
  svg = drawing([flat()], decimals=1)
  titles = [e.find("title").text for e in with_class(svg, "marker")]
  assert titles[0] == "<a>, round 0: 50.0 %"


def test_many_points_have_few_markers_at_other_places_on_each_line():
  svg = drawing([flat(1000, number=n) for n in range(3)])
  places = [
    {e.get("transform") for e in group.iter() if e.get("class") == "marker"}
    for group in with_class(svg, "series")
  ]
  assert all(4 <= len(found) <= 7 for found in places)
  assert not places[0] & places[1] | places[1] & places[2]


def test_bands_are_below_all_lines():
  svg = drawing([flat(spread=1.0, number=n) for n in range(3)])
  kinds = [
    e.get("class").split()[0]
    for e in svg
    if e.get("class", "").split()[0:1] in (["band"], ["series"])
  ]
  assert kinds == ["band"] * 3 + ["series"] * 3
  assert with_class(drawing([flat()]), "band") == []


def test_a_point_alone_and_values_that_are_none_are_drawn():
  svg = drawing([flat(1), flat(2, y=np.nan), flat(3, y=np.inf, spread=np.nan)])
  paths = [e.get("d") for e in with_class(svg, "line")]
  assert [bool(path) for path in paths] == [True, False, False]
  assert len(with_class(svg, "marker")) == 1
  assert "nan" not in ET.tostring(svg).decode()


def test_methods_differ_in_more_than_colour():
  looks = [task_runs.style(n) for n in range(42)]
  assert len({(s.dashes, s.marker) for s in looks}) == 42
  assert all(s.color < task_runs.NUM_COLORS for s in looks)
  assert all(re.fullmatch(r"[Mmhvlaz\d. -]+", s.marker) for s in looks)
