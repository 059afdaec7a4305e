"""Tests of runs with clients that never take part, or join in a later round."""

import numpy as np
import pandas as pd
import pytest

from tests.experiments.training.small_run import SMALL, train
from tff_fair import experiments
from tff_fair.experiments.analysis import joining_gains
from tff_fair.experiments.presenting import card_fairness
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.spec.scores import ACCURACY, RMSE
from tff_fair.experiments.texts import sentences

pytestmark = [
  pytest.mark.program,
  pytest.mark.usefixtures("compiled_here", "unpainted"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  spec = SMALL.replace(
    task_options={**SMALL.task_options, "num_clients": 20},
    unseen_clients=0.8,
    join_round="0.5:2",
    clients_per_round=None,
  )
  path = tmp_path_factory.mktemp("runs") / "newcomers"
  return train(spec, path)


def test_unseen_clients_do_not_train_and_are_evaluated(run):
  clients, rows = run.clients, run.client_evaluations
  unseen = set(clients["client_id"][clients["unseen"]])
  late = set(clients["client_id"][clients["join_round"] > 1])
  assert (len(unseen), len(late)) == (16, 2)
  trained = run.cohorts.groupby("round")["client_id"].agg(set)
  assert not set.union(*trained) & unseen
  assert not trained[1] & late
  assert trained[2] >= late
  assert set(rows["client_id"][rows["unseen"]]) == unseen
  # Means, and all other numbers of the run, leave out the unseen clients.
  last = rows[(rows["round"] == 3) & ~rows["unseen"]]
  summary = run.summary
  assert summary["num_clients"] == 4
  assert summary["test_accuracy"]["mean"] == pytest.approx(
    last["accuracy"].mean()
  )
  compared = experiments.compare(run, columns=["mean", "worst_10"])
  assert compared["worst_10"].iloc[0] == pytest.approx(
    100 * last["accuracy"].min()
  )


def test_the_bound_and_the_gains_are_in_summary_card_and_page(run, tmp_path):
  summary, rows = run.summary, run.client_evaluations
  scores = rows[rows["unseen"] & (rows["round"] == 3)]["accuracy"]
  found = summary[summaries.UNSEEN]
  assert found["mean"] == pytest.approx(scores.mean())
  assert found["worst"] == pytest.approx(scores.min())
  # With 16 clients, the fewest that suffice, the lowest of their bounds counts.
  assert (found["num_clients"], found["needed"]) == (16, 16)
  assert 0 <= found["bound"] <= scores.min()
  late = summary[summaries.LATE]
  assert late["round"] == 2
  is_late = rows["join_round"] > 1
  for name, chosen in (
    ("joining", is_late),
    ("others", ~is_late & ~rows["unseen"]),
  ):
    of_group = rows[chosen].groupby("round")["accuracy"].mean()
    # The first round with late clients starts from this model.
    assert late[name]["before"] == pytest.approx(of_group[1])
    assert late[name]["after"] == pytest.approx(of_group[3])
  card = card_fairness.read(run, 3, of_global=False, client_id=None)
  assert (len(card.clients), card.num_unseen) == (4, 16)
  page = tmp_path / "page.html"
  experiments.report(run, page)
  text = page.read_text("utf-8")
  assert "Clients that come later" in text
  for sentence in sentences.newcomers(summary, run.score):
    assert sentence in text
  assert "with confidence 95 %" in text


@pytest.mark.pure
def test_too_few_unseen_clients_are_said_to_be():
  table = pd.DataFrame(
    {
      "unseen": [True] * 13,
      "test_rmse": [*range(13)],
      "num_test_examples": 10,
      "test_accuracy": np.arange(13) / 20,
    }
  )
  # Multiples of 1/20 cannot be the accuracies on 10 examples.
  for score, needed in ((RMSE, 14), (ACCURACY, 14)):
    found = joining_gains.of_unseen_clients(table, score) or {}
    assert (found.get("bound"), found["needed"]) == (None, needed)
  table = pd.concat([table, table])
  found = joining_gains.of_unseen_clients(table, RMSE) or {}
  # For 26 errors and a confidence of 0.95, the second largest is the bound.
  assert found["bound"] == 12
  assert found["worst"] == 12


def test_a_run_goes_on_with_the_same_clients(run):
  longer = train(run.spec.replace(total_rounds=4), run.path)
  rows = longer.client_evaluations
  for column in ("unseen", "join_round"):
    of_client = rows.groupby("client_id")[column]
    assert (of_client.nunique() == 1).all()
    # Evaluations: rounds 0, 2 and 4, and round 1 before clients join.
    assert of_client.size().eq(4).all()
  assert (longer.summary or {})[summaries.LATE]["round"] == 2
