import itertools
import math
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from tests.experiments.presenting.report.page_parts import with_class
from tff_fair.experiments.presenting.report import (
  scale,
  scatter_chart,
  task_runs,
)
from tff_fair.experiments.presenting.report.frame import Frame
from tff_fair.experiments.presenting.report.scatter_chart import (
  Point,
  pareto_front,
)


@pytest.mark.parametrize(
  ("x", "y", "front"),
  [
    ([], [], []),
    ([1], [1], [0]),
    ([1, 2, 3], [3, 2, 1], [0, 1, 2]),
    ([3, 1, 2], [1, 3, 2], [1, 2, 0]),
    ([1, 2, 3], [1, 2, 3], [2]),
    ([1, 1, 1], [1, 2, 2], [1, 2]),  # Equal points do not beat each other.
    ([1, 2, 2], [5, 5, 4], [1]),
    ([math.nan, 1, 2], [9, 1, math.nan], [1]),
    ([math.inf, 1], [0, 1], [1, 0]),
  ],
)
def test_the_pareto_front_of_few_points(x, y, front):
  assert sorted(pareto_front(x, y)) == sorted(front)
  assert [x[place] for place in pareto_front(x, y)] == sorted(
    x[place] for place in front
  )


def test_the_pareto_front_is_what_no_point_beats():
  generator = np.random.default_rng(0)
  for _ in range(50):
    points = generator.integers(0, 6, (12, 2))
    expected = {
      place
      for place, point in enumerate(points)
      if not any(
        (other >= point).all() and (other > point).any() for other in points
      )
    }
    assert set(pareto_front(*points.T)) == expected


def drawing(places):
  axis = scale.linear(0, 100)
  points = [
    Point(f"method_{n}", task_runs.style(n), x, y, "<values>")
    for n, (x, y) in enumerate(places)
  ]
  front = pareto_front(*np.reshape(places, [-1, 2]).T)
  chart = scatter_chart.draw(
    points,
    Frame(axis, axis),
    identifier="i",
    title="t",
    description="d",
    front=front,
  )
  return ET.fromstring(chart.__html__())


def names(svg):
  return with_class(svg, "name")


def boxes(svg):
  for text in names(svg):
    width = 7 * len(text.text)
    shift = {None: 0, "middle": width / 2, "end": width}[
      text.get("text-anchor")
    ]
    x, y = float(text.get("x")) - shift, float(text.get("y"))
    yield x, y - 10, x + width, y + 2


def test_names_beside_points_do_not_cover_each_other():
  places = [(50, 50), (52, 51), (50, 48), (98, 97), (1, 2), (99, 90)]
  svg = drawing(places)
  assert len(names(svg)) == len(places)
  for a, b in itertools.combinations(boxes(svg), 2):
    assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
  assert all(box[0] >= 0 and box[2] <= 480 for box in boxes(svg))


def test_names_without_room_are_left_out_but_not_those_of_the_front():
  crowd = [(50 + n / 10, 50 - n / 20) for n in range(12)]
  front = len(crowd)
  svg = drawing([*crowd, (60, 60)])
  written = [text.text for text in names(svg)]
  assert f"method_{front}" in written
  assert 1 < len(written) <= front
  for a, b in itertools.combinations(boxes(svg), 2):
    width = max(0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0, min(a[3], b[3]) - max(a[1], b[1]))
    assert width * height <= 7 * 12 / 2


def test_many_points_have_no_names_but_tell_them():
  svg = drawing([(n, n) for n in range(30)])
  assert names(svg) == []
  titles = [e.text for e in svg.iter("title")]
  assert "method_29: <values>" in titles


def test_the_front_is_a_line_if_it_has_two_points():
  assert with_class(drawing([(10, 10), (20, 20)]), "front") == []
  (path,) = with_class(drawing([(10, 20), (20, 10), (5, 5)]), "front")
  # The line goes from the upper left point down, then right to the other point.
  assert [c for c in path.get("d") if c.isalpha()] == ["M", "V", "H"]
