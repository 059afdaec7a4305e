"""Tests of the numbers of model cards, and of the limits that cards state."""

import re

import numpy as np
import pandas as pd
import pytest

from tests.experiments import report_runs
from tff_fair.experiments.analysis import questions
from tff_fair.experiments.analysis.questions import Question
from tff_fair.experiments.presenting import card_fairness
from tff_fair.experiments.presenting.card_fairness import LastEvaluation
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.spec.scores import BY_NAME, RMSE

OTHER, THESE = map(Question, (questions.OTHER_CLIENTS, questions.THESE_CLIENTS))
ACCURACIES = [0.5, 0.75, 1.0, 0.25, 0.75, 1.0]


def table(**columns):
  return pd.DataFrame(
    {"client_id": range(6), "loss": np.arange(6.0), **columns}
  )


def text_of(clients, question=OTHER, **values):
  evaluation = LastEvaluation(round_num=7, clients=clients, **values)
  return card_fairness.paragraphs(evaluation, 7, question)


def test_accuracies_are_in_percent_with_intervals():
  text = text_of(table(accuracy=ACCURACIES, num_examples=[4] * 6))
  mean, std = np.mean(ACCURACIES), np.std(ACCURACIES)
  assert f"| mean | {100 * mean:.1f} % | " in text
  assert f"| standard deviation | {100 * std:.1f} points | " in text
  assert "| worst client | 25.0 % |  |" in text
  assert "| mean loss | 2.5 | |" in text
  assert "6 clients, 24 examples together, 4 each" in text
  assert "is such noise" in text
  assert text.count(" to ") >= 4


def test_for_these_clients_only_their_examples_are_drawn():
  text = text_of(table(accuracy=ACCURACIES, num_examples=[4] * 6), THESE)
  assert "question=these_clients" in text
  assert "other test examples of these clients" in text
  found = re.search(r"\| mean \| \S+ % \| (.*?) % to (.*?) % \|", text)
  low, high = map(float, found.groups())
  # The limit `most` holds because no accuracy has a variance above 0.25 / 4.
  shares = np.array(ACCURACIES)
  most = 196 * np.sqrt((0.25 / 4) / 6)
  assert 0.5 * most < high - shares.mean() * 100 < most
  assert high - low < 2 * most + 0.2
  # The number of examples does not determine the variance of an error.
  errors = table(rmse=ACCURACIES, r2=ACCURACIES, num_examples=[4] * 6)
  text = text_of(errors, THESE, score=RMSE)
  assert " to " not in text.split("|---|")[1].split("\n\n")[0]
  assert "without intervals" in text


def test_errors_are_worst_where_they_are_largest():
  rmse = [3.0, 1.0, 2.0, 9.0, 1.5, 2.5]
  clients = table(rmse=rmse, r2=[0.5] * 5 + [np.nan], num_examples=[5] * 6)
  text = text_of(clients, score=RMSE)
  assert "| mean of the worst 10 % | 9 |" in text
  assert "| worst client | 9 |" in text
  assert "| mean of R² | 0.5 | |" in text
  assert "%" not in text.replace("95 %", "").replace("10 %", "")


def test_r2_has_no_ratios_to_its_mean():
  r2 = [0.5, -1.0, 0.25, 0.75, -0.5, 0.9]
  clients = table(r2=r2, num_examples=[5] * 6)
  text = text_of(clients, score=BY_NAME["r2"])
  assert "| mean of the worst 10 % | -1 | " in text
  assert "Jain" not in text
  assert "nan" not in text


def test_one_client_has_an_interval_of_its_own():
  clients = table(accuracy=ACCURACIES, num_examples=[4] * 6)[:1]
  text = text_of(clients, is_single_client=True)
  # Wilson's interval for 2 correct of 4.
  assert "50.0 % (95 % interval: 15.0 % to 85.0 %), the mean loss 0." in text


def test_limits_name_the_clients_that_are_not_in_the_numbers():
  clients = table(accuracy=ACCURACIES, num_examples=[4, 4, 4, 50, 50, 50])
  found = card_fairness.limits(
    LastEvaluation(round_num=7, clients=clients, num_attackers=2), 100
  )
  text = " ".join(found)
  assert "did not evaluate 92 of its 100 clients" in text
  assert "3 of 6 clients have test data of fewer than 30 examples" in text


def read(path, round_num=2, *, of_global=False, client_id=None):
  run = discovery.open_run(path)
  return card_fairness.read(
    run, round_num, of_global=of_global, client_id=client_id
  )


def test_the_last_evaluation_up_to_a_round_counts(tmp_path):
  path = report_runs.make(
    tmp_path / "run", num_rounds=20, rounds_per_evaluation=10
  )
  for round_num, expected in {20: 20, 19: 10, 10: 10, 9: None}.items():
    found = read(path, round_num)
    assert found.round_num == expected
    text = card_fairness.paragraphs(found, round_num, OTHER)
    assert ("was after round 10" in text) == (round_num == 19)
    assert ("fairness is unknown" in text) == (round_num == 9)
  of_one = read(path, 20, client_id=3)
  assert of_one.clients["client_id"].tolist() == [3]
  assert of_one.is_single_client


@pytest.mark.parametrize("is_personal", [True, False])
def test_global_models_have_their_own_columns(tmp_path, is_personal):
  path = report_runs.make(tmp_path / "run", num_rounds=2)
  file = path / "client_evaluations.csv"
  rows = pd.read_csv(file)
  rows.assign(global_accuracy=0.125, global_loss=9.0).to_csv(file, index=False)
  found = read(path, of_global=not is_personal)
  assert (found.clients["accuracy"] == 0.125).all() == (not is_personal)
  assert (found.clients["loss"] == 9).all() == (not is_personal)


def test_attackers_are_left_out_and_counted(tmp_path):
  path = report_runs.make(tmp_path / "run", num_rounds=2)
  clients = pd.read_csv(path / "clients.csv")
  is_attacker = clients["client_id"] < 2
  clients.assign(attacker=is_attacker).to_csv(path / "clients.csv", index=False)
  found = read(path)
  assert found.num_attackers == 2
  assert found.clients["client_id"].min() == 2
  assert "2 clients that attacked" in card_fairness.paragraphs(found, 2, OTHER)
