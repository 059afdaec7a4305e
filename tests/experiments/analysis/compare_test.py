import numpy as np
import pandas as pd
import pytest

from tests.experiments import run_folders
from tests.refusals import rejected
from tff_fair.declared import FieldError
from tff_fair.experiments import compare
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import discovery


@pytest.fixture
def folder(tmp_path):
  """Returns runs of three methods; FedAvg and TERM have two seeds."""
  return run_folders.make_three_methods(tmp_path)


def test_methods_have_rows(folder):
  frame = compare(discovery.find([folder]))
  assert list(frame.columns) == [
    *("task", "method", "seeds"),
    *("mean", "mean_std_over_seeds", "std", "std_std_over_seeds"),
    *("worst_10", "worst_10_std_over_seeds"),
    *("best_10", "best_10_std_over_seeds"),
  ]
  assert frame["method"].tolist() == ["AFL", "FedAvg", "TERM"]
  assert frame["seeds"].tolist() == [1, 2, 2]
  assert set(frame["task"]) == {"digits, 3 clients"}
  # In percent, rounded as in the program's tables.
  assert frame["mean"].tolist() == [10.0, 55.0, 65.0]
  assert frame["std"].tolist()[1] == 29.44
  assert frame["mean_std_over_seeds"].tolist()[1:] == [7.07, 7.07]
  assert pd.isna(frame["mean_std_over_seeds"].iloc[0])
  alone = compare(folder / "afl-0")
  assert {str(kind) for kind in alone.dtypes[3:]} == {"float64"}


def test_runs_and_folders_are_the_same(folder):
  expected = compare(discovery.find([folder]))
  paths = sorted(map(str, folder.iterdir()))
  for runs in (
    folder,
    str(folder),
    [folder],
    paths,
    [discovery.open_run(paths[0]), *paths],
  ):
    pd.testing.assert_frame_equal(compare(runs), expected)


def test_another_round_is_compared(folder):
  means = compare(folder, round=1)["mean"]
  assert means.tolist() == [20, 20, 20]
  best = compare(folder, round="best", criterion="std")["mean"]
  assert best.tolist() == [10, 20, 20]
  assert compare(folder, round="best")["mean"].tolist() == [20, 55, 65]


def test_differences_to_a_baseline_have_intervals(folder):
  settings = {"columns": ["mean"], "question": "other_clients"}
  frame = compare(folder, baseline="fedavg", **settings)
  assert list(frame.columns[-9:]) == [
    *("mean_difference", "mean_difference_low", "mean_difference_high"),
    *("mean_difference_p", "mean_difference_p_holm"),
    "mean_difference_baseline",
    *("wins", "ties", "losses"),
  ]
  frame = frame.set_index("method")
  assert frame.loc["TERM", "mean_difference"] == 10
  assert frame.loc["TERM", ["wins", "ties", "losses"]].tolist() == [2, 0, 1]
  low, high = frame.loc["TERM", ["mean_difference_low", "mean_difference_high"]]
  assert low < 10 < high
  # Holm's correction doubles the smaller of two p-values.
  p_values, p_holm = frame["mean_difference_p"], frame["mean_difference_p_holm"]
  assert p_holm["AFL"] == pytest.approx(2 * p_values["AFL"])
  assert p_holm["TERM"] == p_values["TERM"] > p_holm["AFL"] > 0
  assert frame.loc["FedAvg"].isna()["mean_difference"]
  assert frame.loc["TERM", "mean_change_std_over_seeds"] == 0
  again = compare(folder, baseline="fedavg", **settings)
  pd.testing.assert_frame_equal(again.set_index("method"), frame)


def test_the_last_evaluations_are_averaged_beside_the_last(tmp_path):
  evaluations = [
    (0, (0.0, 0.0)),
    (1, (0.2, 0.4)),
    (2, (0.4, 0.8)),
    (3, (0.6, 0.6)),
  ]
  run_folders.make(tmp_path / "a", evaluations)
  run_folders.make(tmp_path / "b", evaluations[1:], algorithm="term")
  frame = compare(
    tmp_path, columns=["mean", "std"], last=2, baseline="fedavg"
  ).set_index("method")
  for method in ("FedAvg", "TERM"):  # Only FedAvg has round 0.
    assert frame.loc[method, "mean"] == 60
    assert frame.loc[method, "mean_last_2"] == 60
    assert frame.loc[method, "std"] == 0
    assert frame.loc[method, "std_last_2"] == 10  # The mean of 20 and 0.
  assert frame.loc["TERM", "std_last_2_difference"] == 0
  assert frame.loc["TERM", "ties_last_2"] == 2
  earlier = compare(tmp_path, columns=["mean"], last=2, round=2)
  assert earlier["mean"].tolist() == [60, 60]
  assert earlier["mean_last_2"].tolist() == [45, 45]
  assert compare(tmp_path, last=3)["mean_last_3"].tolist() == [50, 50]
  for last, arguments in ((4, {}), (3, {"round": 2})):
    with pytest.raises(FieldError, match=f"{tmp_path / 'a'} has {last - 1} "):
      compare(tmp_path, last=last, **arguments)


def test_round_0_is_compared_if_asked_for_alone(tmp_path):
  # An untrained model treats clients equally, which is no achievement.
  run_folders.make(tmp_path / "a", [(0, (0.1, 0.1)), (1, (0.3, 0.9))])
  run_folders.make(
    tmp_path / "b", [(0, (0.1, 0.1))], algorithm="term", is_finished=False
  )
  for choice in ({"round": "best", "criterion": "std"}, {"round": "last"}):
    frame = compare(tmp_path, unfinished=True, **choice)
    assert frame["mean"].tolist() == [60]
    assert frame.attrs["notes"][-1].endswith("has no evaluation yet.")
  frame = compare(tmp_path, round=0, unfinished=True)
  assert frame["mean"].tolist() == [10, 10]


def test_clients_have_columns(folder):
  table = pd.DataFrame(
    {"client_id": [0, 1, 2], "client": ["shirt", "pullover", "007"]}
  )
  for name in ("fedavg-0", "fedavg-1"):
    table.to_csv(folder / name / "clients.csv", index=False)
  frame = compare(folder, columns=["mean", "clients"], baseline="fedavg")
  assert list(frame.columns[3:10:2]) == [
    *("mean", "client_shirt", "client_pullover", "client_007")
  ]
  frame = frame.set_index("method")
  assert frame.loc["FedAvg", "client_shirt"] == 25
  assert frame.loc["FedAvg", "client_shirt_std_over_seeds"] == 7.07
  assert frame.loc["AFL", "client_007"] == 10
  assert frame.loc["TERM", "client_pullover_difference"] == 10
  alone = compare(folder / "afl-0", columns=["clients"])
  assert list(alone.columns[3::2]) == ["client_0", "client_1", "client_2"]


def test_ten_columns_are_printed_by_name_and_the_others_counted(folder):
  frame = compare(folder, baseline="fedavg", columns=["mean", "std", "jain"])
  assert frame.index[0] == "FedAvg"
  assert frame.loc["FedAvg", "mean"] == frame["mean"].iloc[0]
  shown = frame._preview()
  assert [*shown.columns[:4]] == ["seeds", "mean", "std", "jain"]
  assert shown.shape[1] == 10
  for text in (repr(frame), frame._repr_html_()):
    assert "..." not in text
    assert all(name in text for name in shown.columns)
    assert f"{frame.shape[1] - 10} more columns" in text
  assert type(frame.T) is pd.DataFrame


def test_unfinished_runs_take_part_if_asked(folder):
  path = run_folders.make(
    folder / "vred", algorithm="vred", is_finished=False, seed=3
  )
  frame = compare(folder)
  assert "VRed" not in set(frame["method"])
  assert frame.attrs["notes"][-1] == (
    f"Left out: {path} is not finished (unfinished=True includes it)."
  )
  assert "VRed" in set(compare(folder, unfinished=True)["method"])


@pytest.mark.parametrize(
  ("arguments", "field", "value"),
  [
    ({"baseline": "fedprox"}, "baseline", "fedprox"),
    ({"columns": ["mean", "foo"]}, "columns", "foo"),
    ({"columns": ["r2"]}, "columns", "r2"),  # The runs have accuracies.
    ({"criterion": "foo"}, "criterion", "foo"),
    ({"criterion": "r2", "round": "best"}, "criterion", "r2"),
    ({"criterion": "std"}, "criterion", "std"),
    ({"target_of": "foo"}, "target_of", "foo"),
    ({"target_of": "std"}, "target_of", "std"),
    ({"last": 0}, "last", 0),
    ({"last": 1, "round": "best"}, "last", 1),
    ({"round": 7}, "runs", None),
  ],
)
def test_wrong_arguments_are_named(folder, arguments, field, value):
  with rejected(field, value=value):
    compare(folder, **arguments)


def test_folders_without_runs_are_named(tmp_path):
  with pytest.raises(RunError, match="holds no run"):
    compare(tmp_path)
  with rejected("runs"):
    compare([])


NAMES = ("error", "error_relative_std", "weighted_std", "weighted_worst_10")


def test_measures_without_a_column_come_from_the_clients(folder):
  path = folder / "term-1" / "client_evaluations.csv"
  table = pd.read_csv(path)
  table["num_examples"] = [1, 2, 7] * 2
  table.to_csv(path, index=False)
  frame = compare(
    folder / "term-1", columns=NAMES, round="best", criterion="weighted_error"
  )
  errors, examples = np.array([0.4, 0.4, 0.1]), np.repeat([0.4, 0.1], [3, 7])
  assert frame.iloc[0, 3 : 3 + 2 * len(NAMES) : 2].tolist() == pytest.approx(
    [
      100 * errors.mean(),
      round(errors.std() / errors.mean(), 4),
      round(100 * examples.std(), 2),
      # The worst third of ten examples: the 3 examples of the first two
      # clients, and 1/3 of an example of the last.
      round(100 * (3 * 0.6 + 0.9 / 3) / (3 + 1 / 3), 2),
    ]
  )


def test_measures_without_a_column_have_differences_and_averages(folder):
  frame = compare(folder, columns=NAMES, last=2, baseline="fedavg").set_index(
    "method"
  )
  term, fedavg = frame.loc["TERM"], frame.loc["FedAvg"]
  assert term["error_difference"] == pytest.approx(
    term["error"] - fedavg["error"]
  )
  # The mean of the two evaluations; in the first, the error is 80 %.
  assert term["error_last_2"] == pytest.approx((80 + term["error"]) / 2)


def test_attackers_are_left_out_of_measures_without_a_column(tmp_path):
  path = run_folders.make(
    tmp_path / "run", [(1, (0.2, 0.4, 0.9))], attack="bias", attack_strength=1.0
  )
  clients = "client_id,attacker\n0,True\n1,False\n2,False\n"
  (path / "clients.csv").write_text(clients)
  table = pd.read_csv(path / "evaluations.csv")
  table["honest/accuracy/mean"] = 0.65
  table.to_csv(path / "evaluations.csv", index=False)
  frame = compare(path, columns=["mean", "error"], honest=True)
  assert frame[["mean", "error"]].iloc[0].tolist() == pytest.approx([65, 35])
