import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from tests.experiments.presenting.report.page_parts import with_class
from tff_fair.experiments.presenting.report import line_chart, scale, task_runs
from tff_fair.experiments.presenting.report.frame import Frame
from tff_fair.experiments.presenting.report.line_chart import Line, downsample


@pytest.mark.parametrize("count", [0, 1, 2, 49, 50])
def test_few_points_are_all_kept(count):
  x = np.arange(count)
  np.testing.assert_array_equal(downsample(x, x, 50), x)


@pytest.mark.parametrize("count", [51, 60, 1000, 12345])
def test_of_many_the_ends_and_peaks_are_kept(count):
  x = np.arange(count, dtype=float)
  y = np.sin(x / count)
  peak, valley = count // 3, count // 2
  y[peak], y[valley] = 10, -10
  kept = downsample(x, y, 50)
  assert len(kept) == 50
  assert len(set(kept)) == 50
  np.testing.assert_array_equal(kept, np.sort(kept))
  assert {0, peak, valley, count - 1} <= set(kept.tolist())


def test_a_gap_does_not_hinder():
  y = np.full(200, np.nan)
  y[77] = 1
  assert 77 in downsample(np.arange(200.0), y, 10)


def drawing(lines, **settings):
  axis = scale.linear(0, 100)
  chart = line_chart.draw(
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


def line(count=5, *, number=0, spread=None, y=50.0, label="<a>"):
  x = np.linspace(0, 100, count)
  if spread is not None:
    spread = np.full(count, spread)
  return Line(label, task_runs.style(number), x, np.full(count, y), spread)


def test_markers_and_the_chart_say_what_they_are():
  svg = drawing([line(spread=1.5)])
  assert svg.get("role") == "img"
  texts = {e.get("id"): e.text for e in svg if e.get("id")}
  ids = svg.get("aria-labelledby").split()
  assert [texts[name] for name in ids] == ["t", "d"]
  titles = [e.find("title").text for e in with_class(svg, "marker")]
  assert titles[1] == "<a>, round 25: 50.00 ± 1.50 %"
  assert len(titles) == 5
  svg = drawing([line()], decimals=1)
  titles = [e.find("title").text for e in with_class(svg, "marker")]
  assert titles[0] == "<a>, round 0: 50.0 %"


def test_many_points_have_few_markers_at_other_places_on_each_line():
  svg = drawing([line(1000, number=n) for n in range(3)])
  places = [
    {e.get("transform") for e in group.iter() if e.get("class") == "marker"}
    for group in with_class(svg, "series")
  ]
  assert all(4 <= len(found) <= 7 for found in places)
  assert not places[0] & places[1] | places[1] & places[2]


def test_bands_are_below_all_lines():
  svg = drawing([line(spread=1.0, number=n) for n in range(3)])
  kinds = [
    e.get("class").split()[0]
    for e in svg
    if e.get("class", "").split()[0:1] in (["band"], ["series"])
  ]
  assert kinds == ["band"] * 3 + ["series"] * 3
  assert with_class(drawing([line()]), "band") == []


def test_a_point_alone_and_values_that_are_none_are_drawn():
  svg = drawing([line(1), line(2, y=np.nan), line(3, y=np.inf, spread=np.nan)])
  paths = [e.get("d") for e in with_class(svg, "line")]
  assert [bool(path) for path in paths] == [True, False, False]
  assert len(with_class(svg, "marker")) == 1
  assert "nan" not in ET.tostring(svg).decode()


def test_methods_differ_in_more_than_colour():
  looks = [task_runs.style(n) for n in range(42)]
  assert len({(s.dashes, s.marker) for s in looks}) == 42
  assert all(s.color < task_runs.NUM_COLORS for s in looks)
  assert all(re.fullmatch(r"[Mmhvlaz\d. -]+", s.marker) for s in looks)
