"""Tests of the comparison of replays, on a table made by hand."""

import math
import re

import pandas as pd
import pytest

from tff_fair.experiments.analysis import replay

pytestmark = pytest.mark.pure


def test_means_over_common_rounds_have_intervals():
  table = pd.DataFrame(
    {
      replay.RULE: rule,
      "round": number,
      "harmed": client < num_harmed,
      "cosine": 0.1 * number + client,
      "loss_change": math.nan,
      "angle": 10.0 * number,
    }
    for rule, rounds in (("a", (0, 1, 2, 1)), ("b", (0, 1, 2, 1, 2)))
    for number, num_harmed in enumerate(rounds, 1)
    for client in range(2)
  )
  compared = replay.compare_replays(table)
  assert compared["rounds"].tolist() == [4, 4]
  titles, first, second = replay.cells(compared)
  assert titles == ["Rule", "Harmed (%)", "Worst cosine", "Angle (°)"]
  assert first[1:] == second[1:]
  for cell, mean in zip(first[1:], ("50.0", "0.250", "25.0"), strict=True):
    found = re.fullmatch(r"(\S+) \[(\S+), (\S+)\]", cell)
    assert found, cell
    shown, low, high = found.groups()
    assert shown == mean
    assert float(low) < float(mean) < float(high)
