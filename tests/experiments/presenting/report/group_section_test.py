"""Tests of the tables of groups inside clients."""

import json

import numpy as np
import pandas as pd

from tests.experiments import report_runs
from tests.experiments.presenting.report.page_parts import drawn, words
from tff_fair.experiments.presenting.report import group_section

NAME = "accuracy_parity"


def test_clients_with_the_widest_known_gaps_are_on_top(tmp_path):
  path = report_runs.make(tmp_path / "run", num_clients=3)
  gap = {"value": 0.3, "low": 0.1, "high": 0.4, "highest": "a", "lowest": "b"}
  groups = {"a": {"examples": 1200, "accuracy": 0.8}, "b": {"examples": 7}}
  found = {"gaps": {NAME: gap}, "least_examples": 10, "groups": groups}
  summary = json.loads((path / "summary.json").read_text())
  text = json.dumps({**summary, "groups": found})
  (path / "summary.json").write_text(text)
  value = pd.Series([0.125, np.nan, 0.5])
  gaps = {NAME: value, f"{NAME}_low": value - 0.1, f"{NAME}_high": value + 0.2}
  clients = pd.read_csv(path / "clients.csv")
  clients.assign(**gaps, num_test_examples=[20, 30, 1000]).to_csv(
    path / "clients.csv", index=False
  )
  root = drawn(group_section.build, tmp_path)
  _, of_groups, of_clients = (
    [[words(cell) for cell in row] for row in table.iter("tr")]
    for table in root.iter("table")
  )
  assert of_groups[1:] == [["a", "1,200", "80.0"], ["b", "7", "-"]]
  assert of_clients[1:] == [
    ["All clients", "1,050", "30.0 10.0 to 40.0"],
    ["client_02", "1,000", "50.0 40.0 to 70.0"],
    ["client_00", "20", "12.5 2.5 to 32.5"],
  ]
  assert "gaps of 2 of 3" in words(root)
  assert "accuracy parity: 2 of 2" in words(root)
