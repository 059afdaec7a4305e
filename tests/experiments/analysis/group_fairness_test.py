"""Tests of the gaps between groups of people, on tables made by hand."""

import pandas as pd
import pytest

from tff_fair.experiments.analysis import group_fairness

pytestmark = pytest.mark.pure

# Client 2 is not summarized.
TABLE = pd.DataFrame(
  [
    *((0, "a", 15, 9), (1, "a", 5, 1), (0, "b", 19, 19), (1, "c", 30, 6)),
    (2, "b", 90, 0),
  ],
  columns=["client_id", "group", "examples", "hits"],
)


def test_a_group_of_twenty_examples_has_shares_and_a_smaller_one_none():
  found = group_fairness.summarize(TABLE, pd.Series([0, 1]))
  assert found["least_examples"] == 20
  assert found["groups"] == {
    "a": {"examples": 20, "accuracy": 0.5},
    "b": {"examples": 19},
    "c": {"examples": 30, "accuracy": 0.2},
  }
  gap = found["gaps"]["accuracy_parity"]
  assert gap["value"] == pytest.approx(0.3)
  assert (gap["highest"], gap["lowest"]) == ("a", "c")
  assert found["gaps"].keys() == {"accuracy_parity"}


def test_a_client_with_one_group_of_enough_examples_has_no_gap():
  table = group_fairness.client_gaps(TABLE)
  assert list(table["client_id"]) == [0, 1, 2]
  assert table["accuracy_parity"].isna().all()
