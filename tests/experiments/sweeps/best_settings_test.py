import math
import re

import numpy as np
import pandas as pd
import pytest

from tests.experiments import run_folders
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.spec.scores import RMSE
from tff_fair.experiments.sweeps import best_settings

CLIENTS = np.arange(10)


def accuracies(on_validation, on_others):
  drawn = best_settings.validation_clients(CLIENTS, 0.2)
  return [on_validation if k in drawn else on_others for k in CLIENTS]


def make(path, values, rate, seed=0, **settings):
  # An earlier evaluation would lead to the opposite choice.
  evaluations = [(1, [1 - value for value in values]), (2, values)]
  run_folders.make(
    path, evaluations, client_learning_rate=rate, seed=seed, **settings
  )


def table_lines(text):
  """Returns the lines of the table, without caption and notes."""
  return text.split("\n\n")[1].splitlines()


def table(path, criterion="mean", fraction=0.2):
  return best_settings.table(discovery.find([path]), criterion, fraction)


def row(path, criterion="mean", fraction=0.2):
  lines = table_lines(table(path, criterion, fraction))
  return re.split(r"\s{2,}", lines[-1].strip())


def test_the_choice_is_made_on_some_clients_and_shown_on_the_others(tmp_path):
  make(tmp_path / "a", accuracies(0.9, 0.3), 0.1)
  make(tmp_path / "b", accuracies(0.5, 0.8), 0.2)
  # The rate 0.1 is better on the validation clients, 0.2 on all clients.
  assert row(tmp_path)[:5] == [
    *("FedAvg, client_learning_rate=0.1", "2", "1", "90.00", "30.00"),
  ]
  assert row(tmp_path, fraction=0)[0].endswith("0.2")


def test_few_clients_all_decide(tmp_path):
  # As in FedFV's Table 4: what is best for one client is not best for all.
  make(tmp_path / "a", [0.9, 0.1, 0.1], 0.1)
  make(tmp_path / "b", [0.1, 0.9, 0.1], 0.3)
  make(tmp_path / "c", [0.5, 0.5, 0.5], 0.2)
  for criterion in ("mean", "worst_20", "std"):
    found = row(tmp_path, criterion)
    assert found[0] == "FedAvg, client_learning_rate=0.2"
    assert found[4] == "50.00"
  text = table(tmp_path, "worst_20")
  assert (
    "* The criterion for 3 clients, too few to divide: worst 20 % over all "
    "clients.\nThe other columns are over the same clients, so they look "
  ) in text
  assert "The criterion's 20 % = 1 of 3 clients.\n" in text
  assert "In the other columns, 10 % = 1 of 3 clients.\n" in text


def test_ten_clients_are_divided_and_nine_are_not(tmp_path):
  values = accuracies(0.9, 0.3)
  make(tmp_path / "10", values, 0.1)
  make(tmp_path / "9", values[:9], 0.1, task="mnist")
  text = table(tmp_path, "worst_10")
  lines = table_lines(text)
  assert re.split(r"\s{2,}", lines[-1])[3:5] == ["90.00", "30.00"]
  nine = re.split(r"\s{2,}", lines[-2])
  assert float(nine[4]) == pytest.approx(100 * np.mean(values[:9]), abs=0.01)
  assert "worst 10 % over a random 20% of the clients." in text
  assert "The criterion's 10 % = 1 of 2 clients." in text
  assert "In the other columns, 10 % = 1 of 8 clients." in text


def test_the_direction_of_a_criterion_is_known(tmp_path):
  make(tmp_path / "a", [0.5] * 10, 0.1)
  make(tmp_path / "b", [0.6, 1.0] * 5, 0.2)
  for criterion in ("mean", "worst_10", "loss"):
    assert row(tmp_path, criterion, 0)[0].endswith("0.2"), criterion
  for criterion in ("std", "angle", "jain"):
    assert row(tmp_path, criterion, 0)[0].endswith("0.1"), criterion


def test_settings_are_chosen_by_their_mean_over_seeds(tmp_path):
  for seed, (first, second) in enumerate([(0.9, 0.6), (0.2, 0.6)]):
    make(tmp_path / f"a{seed}", [first] * 10, 0.1, seed)
    make(tmp_path / f"b{seed}", [second] * 10, 0.2, seed)
  assert row(tmp_path)[:4] == [
    *("FedAvg, client_learning_rate=0.2", "2", "2", "60.00 ± 0.00"),
  ]


def test_the_choice_is_made_for_each_cut_of_the_data(tmp_path):
  for number, rate in enumerate((0.1, 0.2)):
    for value, size in ((0.4, 20), (0.8, 40)):
      values = [value + rate if number else value] * 10
      cut = {"num_clients": size}
      make(tmp_path / f"{size}-{rate}", values, rate, task_options=cut)
  text = table(tmp_path)
  assert [line.split()[:4] for line in table_lines(text)[-2:]] == [
    ["FedAvg,", "num_clients=20,", "client_learning_rate=0.2", "2"],
    ["FedAvg,", "num_clients=40,", "client_learning_rate=0.2", "2"],
  ]


@pytest.mark.parametrize(
  ("num_clients", "fraction", "size"),
  [(10, 0.2, 2), (2, 0.01, 1), (2, 0.99, 1), (100, 0.5, 50), (7, 0.99, 6)],
)
def test_some_clients_are_drawn_and_some_are_left(num_clients, fraction, size):
  ids = np.arange(num_clients) * 3
  drawn = best_settings.validation_clients(ids, fraction)
  assert len(drawn) == len(set(drawn)) == size
  assert set(drawn) < set(ids)
  again = best_settings.validation_clients(ids[::-1].repeat(2), fraction)
  assert drawn.tolist() == again.tolist()


def test_the_draw_does_not_change():
  # Otherwise nobody could reproduce the results of a sweep.
  drawn = best_settings.validation_clients(range(30), 0.2)
  assert drawn.tolist() == [2, 12, 16, 18, 21, 28]


def test_of_errors_the_smallest_are_chosen_in_a_table_of_their_own(tmp_path):
  make(tmp_path / "1", [0.5] * 3, 0.1)
  for name, errors, rate in (
    ("a", [90.0, 95, 85], 0.1),
    ("b", [40.0] * 3, 0.2),
  ):
    run_folders.make(
      tmp_path / name,
      [(2, errors)],
      client_learning_rate=rate,
      task="synthetic",
      score=RMSE,
    )
  text = table(tmp_path, "worst_10", 0)
  assert text.count("The best of each method's settings") == 2
  assert "accuracy in percent, mean ±" in text
  assert "RMSE in units of the label, mean ±" in text
  last = re.split(r"\s{2,}", text.splitlines()[-1].strip())
  assert last[:4] == ["FedAvg, client_learning_rate=0.2", "2", "1", "40.00"]


def set_aside(path, values):
  """Adds validation results to clients; NaN means that a client has none."""
  place = path / "client_evaluations.csv"
  table = pd.read_csv(place)
  of_last = pd.Series(values, index=table.index[-len(values) :])
  table["validation_num_examples"] = of_last.where(of_last.isna(), 4)
  table["validation_loss"] = 1 - of_last
  table["validation_accuracy"] = of_last
  table.to_csv(place, index=False)


@pytest.mark.parametrize("number", [3, 12, 60])
def test_validation_data_decide_and_test_data_are_shown(tmp_path, number):
  good, bad = np.full(number, 0.9), np.full(number, 0.2)
  for name, rate, on_validation, on_test in (
    ("a", 0.1, good, bad),
    ("b", 0.2, bad, good),
  ):
    make(tmp_path / name, on_test, rate, validation_fraction=0.2)
    set_aside(tmp_path / name, [np.nan, *on_validation[1:]])
  assert row(tmp_path)[:5] == [
    *("FedAvg, client_learning_rate=0.1", "2", "1", "90.00", "20.00"),
  ]
  text = table(tmp_path, "worst_20")
  assert "20% of each client's training data" in text
  assert f"1 of {number} clients." in text
  assert "Warning" not in text
  of = number - 1
  assert f"The criterion's 20 % = {math.ceil(0.2 * of)} of {of} clients" in text
  assert f"10 % = {math.ceil(0.1 * number)} of {number} clients" in text


def test_runs_that_train_on_other_rows_are_not_chosen_from_together(tmp_path):
  make(tmp_path / "a", accuracies(0.9, 0.3), 0.1)
  make(tmp_path / "b", accuracies(0.5, 0.8), 0.2, validation_fraction=0.2)
  set_aside(tmp_path / "b", accuracies(0.5, 0.8))
  text = table(tmp_path)
  rows = [re.split(r"\s{2,}", line) for line in table_lines(text)[-2:]]
  assert [row[1] for row in rows] == ["1", "1"]


@pytest.mark.parametrize(("number", "drawn"), [(21, 4), (49, 10), (50, None)])
def test_a_choice_on_few_clients_warns(tmp_path, number, drawn):
  run_folders.make(tmp_path / "a", [(1, np.linspace(0, 1, number))])
  text = table(tmp_path)
  warning = re.search(r"Warning: (\d+) of (\d+) clients", text)
  if drawn is None:
    assert warning is None
  else:
    assert [int(n) for n in warning.groups()] == [drawn, number]
  assert "Warning" not in table(tmp_path, fraction=0)
