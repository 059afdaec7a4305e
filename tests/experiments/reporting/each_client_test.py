"""Tests of the chart and the table of single clients."""

import re
import xml.etree.ElementTree as ET

import pytest

from tests.experiments import report_runs, run_folders
from tff_fair import metrics
from tff_fair.experiments.reporting import each_client_section, methods
from tff_fair.experiments.runs.finding import find
from tff_fair.experiments.scores import RMSE

ACCURACIES = {"fedavg": (0.75, 0.5, 1.0), "fedfv": (0.5, 0.625, 1.0)}


def name_clients(path, names=("north", "south", "west")):
  rows = [f"{number},{name}" for number, name in enumerate(names)]
  (path / "clients.csv").write_text("\n".join(["client_id,client", *rows]))


def make(folder, seeds=1, **settings):
  for algorithm, accuracies in ACCURACIES.items():
    for seed in range(seeds):
      path = run_folders.make(
        folder / f"{algorithm}-{seed}",
        [(4, tuple(value - seed / 8 for value in accuracies))],
        algorithm=algorithm,
        seed=seed,
        **settings,
      )
      name_clients(path)


def build(folder):
  (task,) = methods.arrange(find([folder]))
  section = each_client_section.build(task)
  assert section.body, section.absence
  return ET.fromstring(section.markup(task))


def words(element):
  return " ".join("".join(element.itertext()).split())


def test_clients_stand_below_each_other_the_worst_of_the_baseline_first(
  tmp_path,
):
  make(tmp_path)
  root = build(tmp_path)
  texts = [e for e in root.iter("text") if e.get("class") == "name"]
  assert [text.text for text in texts] == ["south", "north", "west"]
  heights = [float(text.get("y")) for text in texts]
  assert heights == sorted(heights)
  run, *_ = find([tmp_path])
  sizes = run.client_evaluations.set_index("client_id")["num_examples"]
  assert f"{sizes[1]:,} examples" in [e.text for e in root.iter("text")]
  tips = [words(e) for e in root.iter("title")]
  assert "north, FedAvg: 75.00 %" in tips
  assert "north, FedFV: 50.00 %" in tips


def test_the_table_is_open_and_has_a_row_for_each_client(tmp_path):
  make(tmp_path)
  root = build(tmp_path)
  (fold,) = root.iter("details")
  assert fold.get("open")
  heads = [words(e) for e in fold.findall(".//thead//th")]
  assert heads == ["Client", "Test examples", "FedAvg", "FedFV"]
  rows = [[words(cell) for cell in row] for row in fold.findall(".//tbody/tr")]
  assert [(row[0], *row[2:]) for row in rows] == [
    ("south", "50.00", "62.50"),
    ("north", "75.00", "50.00"),
    ("west", "100.00", "100.00"),
  ]


def whiskers(root):
  """Returns the lengths of the horizontal lines, from the top."""
  lines = [
    e.get("d") for e in root.iter("path") if e.get("class") == "whiskers"
  ]
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


def test_an_rmse_of_one_seed_has_no_interval(tmp_path):
  report_runs.make(tmp_path / "a", score=RMSE, num_clients=4)
  root = build(tmp_path)
  assert whiskers(root) == []
  assert "interval" not in words(root)


def test_more_than_six_clients_are_in_two_charts(tmp_path):
  report_runs.make(tmp_path / "a", num_clients=39)
  root = build(tmp_path)
  assert [words(e) for e in root.iter("strong")] == [
    "Clients 1 to 20 of 39: accuracy (%)",
    "Clients 21 to 39 of 39: accuracy (%)",
  ]


def test_forty_clients_are_too_many(tmp_path):
  report_runs.make(tmp_path / "a", num_clients=40)
  (task,) = methods.arrange(find([tmp_path]))
  section = each_client_section.build(task)
  assert not section.body
  assert section.absence == "it has room for 1 to 39 clients"
