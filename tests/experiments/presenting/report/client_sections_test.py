"""Tests of the sections on ordered clients, histograms and single clients."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from tests.experiments import report_runs, run_folders
from tests.experiments.presenting.report.page_parts import (
  drawn,
  task_of,
  texts,
  with_class,
  words,
)
from tff_fair import metrics
from tff_fair.experiments.presenting.report import client_sections
from tff_fair.experiments.runs.discovery import find
from tff_fair.experiments.spec.scores import BY_NAME, RMSE


def test_histograms_count_each_client_once_and_each_seed_the_same():
  found = client_sections.histogram_shares([np.linspace(0, 1, 101)])
  # The last bin includes 1.
  assert found == pytest.approx([5 / 101] * 19 + [6 / 101])
  found = client_sections.histogram_shares([np.zeros(3), np.ones(100)])
  assert (found[0], found[-1]) == (0.5, 0.5)


@pytest.mark.parametrize("number", range(20))
def test_a_value_between_two_bins_is_in_the_upper_in_float32_too(number):
  edge = np.array([np.float32(number / 20)], float)
  below = np.maximum(edge - 1e-4, 0)
  for value, place in ((edge, number), (below, max(0, number - 1))):
    assert client_sections.histogram_shares([value]).argmax() == place


@pytest.mark.parametrize("counts", [(1,), (2, 2), (3, 50), (1500,)])
def test_any_number_of_clients_is_drawn(tmp_path, counts):
  for seed, count in enumerate(counts):
    path = tmp_path / f"{seed}"
    report_runs.make(path, seed=seed, num_clients=count, num_rounds=3)
  root = drawn(client_sections.build, tmp_path)
  assert [title.text for title in root.findall(".//svg/title")] == [
    *("Accuracy of clients in order", "Accuracy over clients, FedAvg")
  ]
  (bars,) = with_class(root, "bars")
  assert bars.get("d")
  assert len(ET.tostring(root)) < 40_000


def test_values_below_0_have_bins_and_their_means_a_place(tmp_path):
  r2 = (-1.0, -0.5, -0.25, 1.0)
  run_folders.make(tmp_path / "run", [(1, r2)], score=BY_NAME["r2"])
  *_, svg = drawn(client_sections.build, tmp_path).iter("svg")
  (bars,) = with_class(svg, "bars")
  assert len(bars.get("d").split("M")) == 1 + len(r2)
  worst, mean = (
    float(line.get("d")[1:].split()[0])
    for name in ("worst-line", "mean-line")
    for line in with_class(svg, name)
  )
  # The x coordinates of the frame's ends.
  left, right = 32, 260 - 14
  share = (np.mean(r2) + 1) / 2
  assert worst == left
  assert mean == pytest.approx(left + share * (right - left), abs=0.1)


def test_clients_without_a_score_are_left_out(tmp_path):
  recall = BY_NAME["recall"]
  path = run_folders.make(tmp_path / "run", [(1, (0.5, 0.75))], score=recall)
  table = path / "client_evaluations.csv"
  table.write_text(table.read_text().replace(",0.75", ","))
  (note,) = drawn(client_sections.build, tmp_path).findall(".//figure/p")
  assert note.text == "mean 50.0, worst 10 % 50.0"


# Tests of the chart and the table of single clients.


# Accuracies on ten examples.
ACCURACIES = {"fedavg": (0.7, 0.5, 1.0), "fedfv": (0.5, 0.6, 1.0)}


def make(folder, seeds=1, accuracies=ACCURACIES):
  """Writes runs whose clients have names."""
  run_folders.make_methods(
    folder,
    {
      algorithm: [[v - seed / 10 for v in found] for seed in range(seeds)]
      for algorithm, found in accuracies.items()
    },
    last=4,
  )
  for path in folder.iterdir():
    names = "client_id,client\n0,north\n1,south\n2,west\n"
    (path / "clients.csv").write_text(names)


def build(folder):
  return drawn(client_sections.build_each, folder)


def test_clients_stand_below_each_other_the_worst_of_the_baseline_first(
  tmp_path,
):
  make(tmp_path)
  root = build(tmp_path)
  shown = [name for name in with_class(root, "name") if name.tag == "text"]
  assert [text.text for text in shown] == ["south", "north", "west"]
  heights = [float(text.get("y")) for text in shown]
  assert heights == sorted(heights)
  run, *_ = find([tmp_path])
  sizes = run.client_evaluations.set_index("client_id")["num_examples"]
  assert f"{sizes[1]:,} examples" in texts(root, "text")
  tips = {"north, FedAvg: 70.00 %", "north, FedFV: 50.00 %"}
  assert tips <= {*texts(root, "title")}


def test_the_table_is_open_and_has_a_row_for_each_client(tmp_path):
  make(tmp_path)
  root = build(tmp_path)
  (fold,) = root.iter("details")
  assert fold.get("open")
  heads, *rows = [[words(cell) for cell in row] for row in fold.iter("tr")]
  assert heads == ["Client", "Test examples", "FedAvg", "FedFV"]
  assert [(row[0], *row[2:]) for row in rows] == [
    ("south", "50.00", "60.00"),
    ("north", "70.00", "50.00"),
    ("west", "100.00", "100.00"),
  ]


def whiskers(root):
  """Returns the lengths of the whiskers, from the top of a chart down."""
  lines = [e.get("d") for e in with_class(root, "whiskers")]
  ends = [
    re.match(r"M([\d.]+) [\d.]+H([\d.]+)", line).groups() for line in lines
  ]
  return [float(right) - float(left) for left, right in ends]


def test_with_one_seed_the_interval_is_wilson_s(tmp_path):
  make(tmp_path)
  root = build(tmp_path)
  assert "Wilson’s 95 % intervals" in words(root.find("p"))
  found = whiskers(root)
  run, *_ = find([tmp_path])
  sizes = run.client_evaluations["num_examples"]
  low, high = metrics.wilson_interval(ACCURACIES["fedavg"], sizes)
  wanted = (high - low)[[1, 0, 2]]
  assert found[::2] == pytest.approx(found[0] * wanted / wanted[0], abs=0.2)


def test_with_several_seeds_the_interval_is_over_them(tmp_path):
  make(tmp_path, seeds=3)
  note = words(build(tmp_path).find("p"))
  assert "Lines are 95 % intervals over seeds." in note
  assert "Wilson" not in note


@pytest.mark.parametrize("kind", ["rmse", "share of words"])
def test_what_is_no_share_of_examples_has_no_interval_of_one_seed(
  tmp_path, kind
):
  if kind == "rmse":
    report_runs.make(tmp_path / "a", score=RMSE, num_clients=4)
  else:
    make(tmp_path, accuracies={"fedavg": (0.7, 0.5, 0.99)})
  root = build(tmp_path)
  assert whiskers(root) == []
  assert "interval" not in words(root)


def test_more_than_six_clients_are_in_two_charts(tmp_path):
  report_runs.make(tmp_path / "a", num_clients=39)
  root = build(tmp_path)
  assert texts(root, "strong") == [
    "Clients 1 to 20 of 39: accuracy (%)",
    "Clients 21 to 39 of 39: accuracy (%)",
  ]


def test_forty_clients_are_too_many(tmp_path):
  report_runs.make(tmp_path / "a", num_clients=40)
  section = client_sections.build_each(task_of(tmp_path))
  assert not section.body
  assert section.absence == "it has room for 1 to 39 clients"
