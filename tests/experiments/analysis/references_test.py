"""Tests of the baseline of a comparison: the better of two FedAvgs."""

import pytest

from tests.experiments import run_folders
from tff_fair.declared import FieldError
from tff_fair.experiments import compare
from tff_fair.experiments.analysis import references, run_groups
from tff_fair.experiments.runs import discovery

EQUAL = "FedAvg, equal weights"
COLUMNS = ["mean", "std", "worst_10"]


@pytest.fixture
def folder(tmp_path):
  return run_folders.make_both_baselines(tmp_path)


def found(path, *names):
  runs = [discovery.find([path / name]) for name in names] or [
    discovery.find([path])
  ]
  return run_groups.group([run for part in runs for run in part])


@pytest.mark.parametrize("name", ["fedavg", "FedAvg"])
def test_fedavg_is_the_better_of_both_for_each_measure(folder, name):
  frame = compare(folder, name, COLUMNS)
  assert list(frame.index) == ["FedAvg", EQUAL, "FedFV", "TERM"]
  fedfv = frame.loc["FedFV"]
  assert [fedfv[f"{name}_difference_baseline"] for name in COLUMNS] == [
    *(EQUAL, "FedAvg", EQUAL)
  ]
  assert fedfv["mean_difference"] == pytest.approx(0)
  assert fedfv["std_difference"] == pytest.approx(8.16)
  assert fedfv["worst_10_difference"] == pytest.approx(10)
  # Clients' accuracies go from 0.4 to 0.5, from 0.7 to 0.7 and from 1 to 0.9.
  assert fedfv[["wins", "ties", "losses"]].tolist() == [1, 1, 1]
  assert frame.loc[["FedAvg", EQUAL], "mean_difference"].isna().all()
  (note,) = (n for n in frame.attrs["notes"] if n.startswith("Baseline: "))
  assert f"{EQUAL} (Mean, Worst 10 %)" in note
  assert "FedAvg (Std)" in note


def test_two_fedavgs_are_compared_with_each_other(folder):
  both = [folder / f"{n}-{s}" for n in ("fedavg", "fedavg-equal") for s in "01"]
  frame = compare(both, "fedavg", ["mean"])
  assert frame.loc[EQUAL, "mean_difference"] == pytest.approx(30)
  assert frame.loc[EQUAL, "mean_difference_baseline"] == "FedAvg"


def test_a_change_is_of_weights_and_of_the_rule(folder):
  frame = compare(folder, columns=COLUMNS)
  for part, fedfv, term in (("weights", 30, 0), ("rule", 0, 10)):
    assert frame.loc["FedFV", f"mean_from_{part}"] == pytest.approx(fedfv)
    assert frame.loc["TERM", f"mean_from_{part}"] == pytest.approx(term)
  change = frame.loc["FedFV", "std"] - frame.loc["FedAvg", "std"]
  parts = frame.loc["FedFV", ["std_from_weights", "std_from_rule"]]
  assert sum(parts) == pytest.approx(change, abs=0.011)
  assert frame.loc[EQUAL].isna()["mean_from_rule"]
  one = [folder / f"{name}-0" for name in ("fedavg", "fedfv")]
  assert "mean_from_rule" not in compare(one, columns=COLUMNS)


def test_other_settings_of_fedavg_leave_the_parts_open(folder):
  run_folders.make(
    folder / "other", [(2, (0.1, 0.2, 0.3))], client_learning_rate=0.5
  )
  assert "mean_from_rule" not in compare(folder, columns=COLUMNS)
  with pytest.raises(FieldError, match="is more than one of the methods"):
    compare(folder, "fedavg", COLUMNS)


def test_methods_that_weigh_clients_differently_are_told(folder):
  def told(*names):
    return references.weights_note(found(folder, *names))

  assert not told("fedavg-0", "term-0")
  assert not told("fedavg-equal-0", "fedfv-0")
  note = told("fedavg-0", "fedfv-0")
  assert "by their numbers of examples in FedAvg," in note
  assert "in FedFV: " in note
  assert "both FedAvgs" in note
  whole = told()
  assert "in FedAvg and TERM," in whole
  assert f"in “{EQUAL}” and FedFV: " in whole
  assert "both FedAvgs" not in whole
  assert whole in compare(folder).attrs["notes"]
