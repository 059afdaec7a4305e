"""Tests of the sections that look like the figures of papers."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from tests.experiments import report_runs, run_folders
from tests.experiments.presenting.report.page_parts import (
  drawn,
  task_of,
  texts,
  with_class,
)
from tff_fair.experiments.presenting.report import (
  curve_section,
  round_sections,
  trade_off_section,
)
from tff_fair.experiments.runs.discovery import open_run
from tff_fair.experiments.spec.scores import RMSE

# Rows of cohorts.csv: round, client and loss.
COHORTS = [
  (1, 0, 2.0),
  (1, 1, 5.0),
  (1, 2, 1.0),
  (1, 3, 9.0),  # This client is only in this round.
  (2, 2, 0.5),
  (2, 1, ""),  # The round excluded this client.
  (2, 4, 99.0),  # This client is not in round 1.
  (3, 1, 4.0),
  (3, 4, 98.0),
  (4, 0, 1.5),
  (4, 1, "inf"),
]


def with_cohorts(path, rows=COHORTS, **columns):
  table = pd.DataFrame(rows, columns=["round", "client_id", "loss_before"])
  columns = {**dict.fromkeys(("coefficient", "loss", "excluded")), **columns}
  table.assign(**columns).to_csv(path / "cohorts.csv", index=False)
  return path


def extremes(folder, *rows, **columns):
  path = with_cohorts(run_folders.make(folder), *rows, **columns)
  return round_sections.extremes(open_run(path))


def test_the_clients_with_the_extreme_losses_of_the_first_round(tmp_path):
  high, low = extremes(tmp_path / "run")
  assert (high.client, low.client) == (1, 2)
  assert dict(high.by_round) == {1: 5.0, 3: 4.0}
  assert dict(low.by_round) == {1: 1.0, 2: 0.5}


@pytest.mark.parametrize(
  ("rows", "found"),
  [
    # If losses are equal, clients with the smallest ids are chosen.
    ([(n, k, 1.0) for n in (1, 2) for k in (5, 3, 4)], (4, 3)),
    ([(n, 7, 1.0) for n in (1, 2)], None),  # One client.
    ([(1, 0, 1.0), (1, 1, 2.0)], None),  # One round.
    ([(n, k, "") for n in (1, 2) for k in (0, 1)], None),
    ([(n, k, "nan") for n in (1, 2) for k in (0, 1)], None),
    ([(n, k, 1.0) for n in (2, 3) for k in (0, 1)], None),  # No round 1.
  ],
)
def test_losses_that_are_hard_to_tell(tmp_path, rows, found):
  losses = extremes(tmp_path / "run", rows)
  assert (losses and tuple(of.client for of in losses)) == found


def test_runs_without_measured_losses_have_those_of_the_method(tmp_path):
  losses = pd.DataFrame(COHORTS)[2]
  high, _ = extremes(tmp_path / "run", loss_before="", loss=losses)
  assert high.client == 1
  without = run_folders.make(tmp_path / "without")
  assert round_sections.extremes(open_run(without)) is None


def ticks(figure):
  """Returns the texts at the ticks of a figure's axes."""
  return [e.text for e in figure.iter("text") if e.get("class") is None]


def test_losses_are_drawn_to_one_scale(tmp_path):
  for number, factor in enumerate((1, 10)):
    rows = [(n, k, factor * (k + 1) / n) for n in (1, 2, 3) for k in (0, 1)]
    path = run_folders.make(tmp_path / f"{number}", method=f"m{number}")
    with_cohorts(path, rows)
  root = drawn(round_sections.build_losses, tmp_path)
  figures = root.findall(".//figure")
  ends = [figure.find(".//p").text for figure in figures]
  assert [" ".join(text.split()) for text in ends] == [
    "Client 1: 2.00 → 0.67; Client 0: 1.00 → 0.33",
    "Client 1: 20.00 → 6.67; Client 0: 10.00 → 3.33",
  ]
  assert ticks(figures[0]) == ticks(figures[1])
  lines = with_class(figures[0], "line")
  assert [line.get("stroke-dasharray") for line in lines] == [None, "4 3"]


def line_ends(root):
  """Returns each line's last value, as the chart's description tells it."""
  (words,) = texts(root, "desc")
  return dict(re.findall(r"(\w+) ([\d.]+)[,.]", words.partition(": ")[2]))


def test_directions_are_shown_relative_to_the_longest(tmp_path):
  norms = {
    "a": [2.0, 8.0, 4.0],
    "b": [1e-9, 5e-10, 1e-10],
    "c": ["inf", 4.0, 3.0],
    "d": [0.0, 0.0, 0.0],
    "e": ["", "", ""],
  }
  for name, values in norms.items():
    path = run_folders.make(tmp_path / name, method=name)
    pd.DataFrame(
      {"round": [1, 2, 3], "aggregator/direction_norm": values}
    ).to_csv(path / "metrics.csv", index=False)
  root = drawn(round_sections.build_direction, tmp_path)
  assert line_ends(root) == {"a": "0.50", "b": "0.10", "c": "0.75"}
  assert "Left out: d, e; their runs have no finite" in texts(root, "p")[-1]


def test_bars_have_one_scale_and_the_values_of_the_table(tmp_path):
  scores = {"a": (0.2, 0.6, 0.7, 0.9), "b" * 60: (0.0, 0.0, 0.0, 0.0)}
  for name, values in scores.items():
    for seed in (0, 1):
      found = [(1, tuple(np.array(values) * (1 - seed / 10)))]
      path = tmp_path / f"{name}{seed}"
      run_folders.make(path, found, method=name, seed=seed)
  root = drawn(trade_off_section.build_bars, tmp_path)
  figures = root.findall(".//figure")
  assert texts(root, "strong") == [
    "Mean (%)",
    "Worst 10 %: 1 of 4 clients (%)",
    "Worst 20 %: 1 of 4 clients (%)",
  ]
  assert {"57.00", "0.00"} <= {*ticks(figures[0])}
  tips = [title for title in texts(figures[0], "title") if ": " in title]
  # For two seeds, Student's t is 12.7, so the interval is wide.
  assert tips == ["a: mean 57.00 % [18.88, 95.12]", f"{'b' * 60}: mean 0.00 %"]
  assert "95 % intervals over seeds" in texts(root, "p")[0]
  # Long names are cut.
  assert f"{'b' * 27}…" in texts(figures[0], "text")
  wholes = [[*filter(str.isdigit, ticks(figure))] for figure in figures]
  assert wholes[0] == wholes[1] == wholes[2]


def test_what_diverged_has_no_bar(tmp_path):
  methods = {"fedavg": [(1.0, 3.0)], "afl": [(1.0, math.inf)]}
  run_folders.make_methods(tmp_path, methods, score=RMSE)
  root = drawn(trade_off_section.build_bars, tmp_path)
  assert "AFL: mean inf" in texts(root, "title")
  assert len(with_class(root, "bars")) == 3


def test_one_seed_has_no_interval_and_no_front(tmp_path):
  methods = {"fedavg": [(1.0, 0.9)], "fedfv": [(0.8, 0.75)]}
  run_folders.make_methods(tmp_path, methods)
  for build in (trade_off_section.build_bars, trade_off_section.build):
    root = drawn(build, tmp_path)
    assert not any(with_class(root, n) for n in ("whiskers", "spread", "front"))
    text = " ".join(root.itertext())
    assert "interval" not in text
    assert "Pareto front:" not in text
  assert "no Pareto front is drawn" in text


def test_the_front_of_error_and_its_spread(tmp_path):
  # The first method has the better error, the second the better relative
  # spread, the third neither.
  methods = {"fedavg": (1.0, 0.9), "afl": (0.8, 0.75), "term": (0.2, 0.8)}
  seeds = {name: [values] * 2 for name, values in methods.items()}
  run_folders.make_methods(tmp_path, seeds)
  root = drawn(trade_off_section.build, tmp_path)
  (fold,) = root.findall(".//details")
  notes = [
    figure.find("p[@class='note']").text for figure in fold.iter("figure")
  ]
  assert notes == ["Pareto front: AFL, FedAvg."] * 2
  (tip,) = {t for t in texts(fold, "title") if t.startswith("FedAvg: error")}
  # Equal results of all seeds give no interval.
  assert tip == "FedAvg: error 5.00 %, relative std of error 1.0000"


def test_an_rmse_has_no_error_of_its_own(tmp_path):
  report_runs.make(tmp_path / "a", score=RMSE, num_rounds=3)
  root = drawn(trade_off_section.build, tmp_path)
  assert root.findall(".//details") == []
  task = task_of(tmp_path)
  shown = {*curve_section._measures_of_task(task)}
  assert {"worst_20", "worst_30", "r2_median"} < shown
  assert "error_relative_std" not in shown


def test_the_curve_of_the_error_s_spread_is_that_of_each_evaluation(tmp_path):
  values = {1: (0.5, 0.7), 2: (0.6, 1.0), 5: (1.0, 1.0)}
  run_folders.make(tmp_path / "run", list(values.items()))
  task = task_of(tmp_path)
  curve = curve_section._measures_of_task(task)["error_relative_std"][0]
  assert list(curve.rounds) == list(values)
  assert curve.mean == pytest.approx([0.1 / 0.4, 0.2 / 0.2, 0])
