"""Tests of the heat maps: shades, coefficients and labels."""

import re

import numpy as np
import pandas as pd
import pytest

from tests.experiments import report_runs, run_folders
from tests.experiments.analysis.certificates_test import cohorts
from tests.experiments.presenting.report.page_parts import drawn
from tff_fair.experiments.presenting.report import (
  coefficient_section,
  heat_map,
  label_section,
  scale,
)
from tff_fair.experiments.presenting.report.frame import Frame, Text
from tff_fair.experiments.presenting.report.task_runs import ClientNames, Method
from tff_fair.experiments.runs.discovery import open_run

FRAME = Frame(scale.linear(0, 100), scale.linear(0, 100), right=60)


@pytest.mark.parametrize(
  ("values", "num_positive", "num_negative", "levels"),
  [
    ([0, 0.1, 0.11, 0.8, np.nan], 8, 0, [1, 1, 2, 8, 0]),
    ([-0.2, 0, 0.8], 8, 2, [-2, 1, 8]),
    ([-1.0, -0.5], 0, 8, [-8, -4]),
  ],
)
def test_shades_are_equal_steps_from_zero(
  values, num_positive, num_negative, levels
):
  shades = heat_map.shades_for(np.array(values))
  assert (shades.num_positive, shades.num_negative) == (
    num_positive,
    num_negative,
  )
  assert shades.levels(np.array(values)).tolist() == levels


def test_few_values_far_out_do_not_hide_all_others():
  values = np.append(np.linspace(0, 1, 999), 1000)
  shades = heat_map.shades_for(values)
  assert shades.is_clipped
  assert len(set(shades.levels(values).tolist())) == 8
  assert texts(heat_map.legend(shades, FRAME))[0].startswith("≥ ")


def test_shades_of_values_near_each_other_span_them():
  values = np.array([0.095, 0.1, 0.105])
  shades = heat_map.shades_for(values, from_zero=False)
  assert shades.levels(values).tolist() == [1, 4, 8]
  key = texts(heat_map.legend(shades, FRAME, "coefficient"))
  assert key == ["0.105", "0.095", "coefficient"]
  # Shades begin at zero if values are far apart, negative or all the same.
  for others in ([0.05, 0.105], [-0.1, 0.105], [0.1, 0.1 + 1e-9]):
    found = heat_map.shades_for(np.array(others), from_zero=False)
    assert found.start == 0
  assert heat_map.shades_for(values).levels(values).min() == 8


@pytest.mark.parametrize("values", [[], [np.nan], [0.0, 0], [np.inf]])
def test_equal_or_missing_values_have_shades_too(values):
  values = np.array([values])
  shades = heat_map.shades_for(values)
  assert (shades.levels(values) <= 1).all()
  heat_map.legend(shades, FRAME)


def texts(drawn):
  return [shape.words for shape in drawn.parts if isinstance(shape, Text)]


def area(cells):
  found = {}
  for path in cells.parts:
    sides = re.findall(r"h([\d.]+)v([\d.]+)h-", path.d)
    found[path.class_] = np.array(sides, float).prod(axis=1).sum()
  return found


def test_cells_cover_what_they_stand_for():
  values = np.array([[1.0, 1, np.nan, 8], [np.nan, 8, 8, 8]])
  shades = heat_map.Shades(1.0, 8, 0, is_clipped=False)
  cells = heat_map.cells(values, shades, FRAME)
  whole = FRAME.inner_width * FRAME.inner_height
  assert area(cells) == pytest.approx(
    {"p1": whole * 2 / 8, "p8": whole * 4 / 8}, rel=0.01
  )
  # Neighbouring cells of one shade are drawn as one box.
  assert "".join(path.d for path in cells.parts).count("M") == 3


def test_the_key_has_round_numbers():
  shades = heat_map.Shades(12.5, 8, 2, is_clipped=False)
  assert texts(heat_map.legend(shades, FRAME)) == ["100", "0", "−25"]


def test_coefficients_by_client_and_round():
  found = coefficient_section.matrix(
    cohorts((1, 7, 0.5), (2, 3, 0.25), (2, 7, 0.75)),
    np.array([3, 7, 9]),
    10,
    10,
  )
  np.testing.assert_array_equal(
    found, [[np.nan, 0.25], [0.5, 0.75], [np.nan, np.nan]]
  )


def test_clients_and_rounds_that_share_a_place_are_averaged():
  rows = [(r, k, float(k)) for r in range(1, 101) for k in range(10)]
  found = coefficient_section.matrix(cohorts(*rows), np.arange(10), 5, 20)
  np.testing.assert_allclose(
    found, np.tile([[0.5], [2.5], [4.5], [6.5], [8.5]], 20)
  )


def make(path, **settings):
  report_runs.make(path, num_rounds=4, **settings)
  return open_run(path)


@pytest.fixture
def run(tmp_path):
  return make(tmp_path / "run", num_clients=6)


def drawn_coefficients(run):
  """Returns the chart of a run's coefficients, with the clients' names."""
  found = coefficient_section.coefficients_of_method(Method("m", 0, (run,)))
  names = ClientNames([run])
  return coefficient_section.draw_coefficients(found, names, "i")


def test_clients_are_in_the_order_of_their_accuracy(run):
  order, is_ordered = coefficient_section.client_order(run)
  assert is_ordered
  accuracies = run.clients.set_index("client_id")["test_accuracy"]
  assert sorted(order) == list(range(6))
  assert accuracies[order].is_monotonic_increasing


def test_without_the_accuracy_of_one_they_are_in_the_order_of_their_ids(run):
  (run.path / "cohorts.csv").write_text(
    "round,client_id,coefficient,loss,excluded\n1,5,1,,\n1,11,1,,\n"
  )
  (run.path / "clients.csv").unlink()
  again = open_run(run.path)
  order, is_ordered = coefficient_section.client_order(again)
  assert not is_ordered
  assert order.tolist() == [0, 1, 2, 3, 4, 5, 11]
  chart = drawn_coefficients(again)
  assert "by number" in chart.description
  assert texts(chart)[:7] == ["0", "1", "2", "3", "4", "5", "11"]


def test_rows_of_few_clients_have_their_names_and_of_many_none(run, tmp_path):
  order, _ = coefficient_section.client_order(run)
  rows = texts(drawn_coefficients(run))
  assert rows[:6] == [f"client_{client:02}" for client in order]
  rows = texts(drawn_coefficients(make(tmp_path / "many", num_clients=30)))
  # Rows have no numbers, since these would look like the ids of clients.
  assert rows[:3] == ["worst", "best", "1"]


def test_each_map_has_a_scale_that_shows_its_differences(tmp_path):
  ends = {"fedavg": (0.095, 0.105), "fedfv": (0.1, 0.7)}
  for name, (low, high) in ends.items():
    path = report_runs.make(tmp_path / name, algorithm=name, num_clients=6)
    cohorts = pd.read_csv(path / "cohorts.csv")
    cohorts["coefficient"] = np.linspace(low, high, len(cohorts))
    cohorts.to_csv(path / "cohorts.csv", index=False)
  maps = [*drawn(coefficient_section.build, tmp_path).iter("svg")]
  keys = [[e.text for e in svg.iter("text")][-3:] for svg in maps]
  assert keys == [
    ["0.105", "0.095", "coefficient"],
    ["0.7", "0", "coefficient"],
  ]
  for svg in maps:
    cells, _ = (e for e in svg.iter("g") if e.get("class") == "cells")
    shades = {path.get("class") for path in cells}
    assert {"p2", "p8"} <= shades


def test_columns_of_labels_have_the_names_of_the_clients(tmp_path):
  run = make(tmp_path / "run", num_clients=3)
  labels = label_section.labels_of_table(run.labels)
  for runs, words in ([run], ["client_00", "client_01", "client_02"]), ([], []):
    chart = label_section.draw_labels(labels, ClientNames(runs), "i")
    assert [t for t in texts(chart) if t.startswith("client_")] == words


def with_names(path, *names):
  """Returns a run whose clients have names."""
  run_folders.make(path)
  rows = [f"{client_id},{name}\n" for client_id, name in enumerate(names)]
  (path / "clients.csv").write_text(f"client_id,client\n{''.join(rows)}")
  return open_run(path)


def test_clients_go_by_names_only_where_all_runs_agree(tmp_path):
  a_b, a_c, a_a = (with_names(tmp_path / n, *n) for n in ("ab", "ac", "aa"))
  named = ClientNames([a_b])
  assert (named.short(1), named.full(1)) == ("b", "b")
  for found in (ClientNames([a_b, a_c]), ClientNames([a_a]), ClientNames([])):
    assert (found.short(1), found.full(1)) == ("1", "Client 1")
  assert named.short(7) == "7"  # A client that is in no table.


def test_long_names_of_clients_are_cut_where_they_still_differ(tmp_path):
  dashes = "-" * 30
  differ = ClientNames([with_names(tmp_path / "a", f"a{dashes}", f"b{dashes}")])
  assert differ.full(0) == f"a{dashes}"
  assert differ.short(0) == f"a{'-' * 22}…"
  alike = ClientNames([with_names(tmp_path / "b", f"{dashes}a", f"{dashes}b")])
  assert alike.short(0) == f"{dashes}a"


@pytest.mark.parametrize("row", ["1,2,,,\n", ""])
def test_cohorts_without_coefficients_have_none(run, row):
  text = f"round,client_id,coefficient,loss,excluded\n{row}"
  (run.path / "cohorts.csv").write_text(text)
  assert coefficient_section._coefficient_table(open_run(run.path)) is None


def test_labels_are_in_the_order_of_the_clients():
  found = label_section.labels_of_table(
    pd.DataFrame({"client_id": [2, 1], "0": [1, 2], "1": [3, 4]})
  )
  assert found.clients.tolist() == [1, 2]
  assert found.counts.tolist() == [[2, 4], [1, 3]]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 10, 99])
def test_no_label_is_lost_where_clients_share_a_column(limit):
  counts = np.arange(20.0).reshape(10, 2)
  found = label_section.merge_rows(counts, limit)
  assert len(found) == min(limit, 10)
  np.testing.assert_array_equal(found.sum(axis=0), counts.sum(axis=0))


@pytest.mark.parametrize(
  "shape", [(1, 1), (3, 3), (100, 10), (5000, 1000), (40, 62)]
)
def test_labels_of_any_split_are_drawn(shape):
  generator = np.random.default_rng(0)
  counts = generator.poisson(0.5, shape).astype(float)
  counts[0] = 0  # A client without labels.
  counts[-1, -1] = 3
  found = label_section.Labels(np.arange(shape[0]), counts)
  chart = label_section.draw_labels(found, ClientNames([]), "i")
  assert len(chart.__html__()) < 400_000
  assert chart.width <= 980
