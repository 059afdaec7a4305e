"""Tests of comparing regressions, whose score is an error."""

import math

import numpy as np
import pytest

from tests.experiments import run_folders
from tests.refusals import rejected
from tff_fair.experiments import compare
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.spec.scores import RMSE

ERRORS = {
  "fedavg": [(50.0, 60.0, 90.0), (51.0, 61.0, 92.0)],
  "term": [(52.0, 55.0, 70.0), (53.0, 56.0, 71.0)],
}


@pytest.fixture
def of_errors(tmp_path):
  """Writes runs of a regression by two methods with two seeds."""
  first = [(1, (100.0, 100.0, 100.0))]
  return run_folders.make_methods(
    tmp_path, ERRORS, first=first, last=2, score=RMSE
  )


def test_errors_are_better_where_they_are_smaller(of_errors):
  frame = compare(
    of_errors, "fedavg", ["mean", "worst_10", "min", "r2", "clients"]
  ).set_index("method")
  fedavg, term = frame.loc["FedAvg"], frame.loc["TERM"]
  assert fedavg["mean"] == pytest.approx(
    np.mean([50, 60, 90, 51, 61, 92]), 1e-3
  )
  assert (fedavg["worst_10"], term["worst_10"]) == (91.0, 70.5)
  assert fedavg["min"] == 50.5
  assert fedavg["client_2"] == 91.0
  squares = np.square([50, 60, 90, 51, 61, 92])
  assert fedavg["r2"] == pytest.approx(np.mean(1 - squares / 100), abs=1e-4)
  # One client of three has an error above FedAvg's mean, and TERM reduces it.
  assert term["suffering_improved_share"] == 100
  assert term["suffering_mean_change"] == -20.5
  assert term["well_performing_degraded_share"] == 50
  assert term["mean_difference"] == pytest.approx(-7.83, abs=0.01)
  assert (term["wins"], term["ties"], term["losses"]) == (2, 0, 1)


def test_the_best_round_has_the_smallest_error(of_errors):
  path = run_folders.make(
    of_errors / "x" / "afl",
    [(1, (9.0, 9.0)), (2, (2.0, 4.0)), (3, (5.0, 5.0))],
    score=RMSE,
  )
  assert compare(path, round="best")["mean"].tolist() == [3.0]


def test_accuracies_and_errors_in_one_table_are_one_line(of_errors):
  other = run_folders.make(
    of_errors / "other", [(2, (0.5, 0.5, 0.5))], algorithm="afl"
  )
  with pytest.raises(
    RunError, match=r"have accuracies, those of .* RMSEs"
  ) as e:
    compare(of_errors)
  assert str(other) in str(e.value)
  assert "\n" not in str(e.value)


def test_a_value_of_r2_is_a_target(of_errors):
  for path in of_errors.iterdir():
    (path / "metrics.csv").write_text("round,x\n1,1\n2,1\n")
  rows = compare(of_errors, target=-40.0, target_of="r2")
  assert rows["reached"].tolist() == [0, 2]
  with rejected("target", "from -inf to 1"):
    compare(of_errors, target=1.1, target_of="r2")


def test_a_run_that_diverged_is_the_worst(of_errors):
  run_folders.make(
    of_errors / "afl-0",
    [(2, (math.inf, math.inf, 8.0))],
    algorithm="afl",
    score=RMSE,
  )
  frame = compare(of_errors, "fedavg", ["mean", "std", "worst_10"])
  afl = frame.set_index("method").loc["AFL"]
  assert afl["mean"] == math.inf
  assert math.isnan(afl["std"])
  assert (afl["wins"], afl["losses"]) == (1, 2)
