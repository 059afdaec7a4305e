"""Tests of who takes part from when on, and of whole runs with newcomers."""

import types

import numpy as np
import pandas as pd
import pytest

from tests.experiments.training.small_run import SMALL
from tff_fair import experiments
from tff_fair.experiments import FieldError, RunSpec, newcomers
from tff_fair.experiments.exporting import card_fairness
from tff_fair.experiments.scores import ACCURACY, RMSE
from tff_fair.experiments.training import participation

NAMES = [*"abcdefghij"]
TASK = types.SimpleNamespace(name="ten", num_clients=10, client_names=NAMES)


def first_rounds(**settings):
  return participation.first_rounds(RunSpec(**settings), TASK)


@pytest.mark.pure
def test_shares_are_drawn_by_the_seed():
  found = first_rounds(unseen_clients=0.3, join_round="0.5:20", seed=4)
  assert (found == participation.NEVER).sum() == 3
  assert (found == 20).sum() == 4  # Half of seven.
  again = first_rounds(unseen_clients="0.3", join_round="0.5:20", seed=4)
  np.testing.assert_array_equal(found, again)
  others = [first_rounds(unseen_clients=0.3, seed=s).tolist() for s in range(9)]
  assert len({tuple(rounds) for rounds in others}) > 5
  assert first_rounds().tolist() == [1] * 10


@pytest.mark.pure
def test_clients_are_named():
  found = first_rounds(unseen_clients=["b", "j"], join_round="c:5,a:7")
  assert found.tolist() == [
    *(7, participation.NEVER, 5),
    *[1] * 6,
    participation.NEVER,
  ]
  marks = participation.marks(found)
  assert np.flatnonzero(marks["unseen"]).tolist() == [1, 9]
  assert marks["join_round"].tolist() == [7, 1, 5, *[1] * 7]
  assert participation.marks(np.ones(3)) == {}


@pytest.mark.pure
@pytest.mark.parametrize(
  ("settings", "field"),
  [
    ({"unseen_clients": "k"}, "unseen_clients"),
    ({"unseen_clients": 1.5}, "unseen_clients"),
    ({"unseen_clients": NAMES}, "unseen_clients"),
    ({"unseen_clients": "a,,b"}, "unseen_clients"),
    ({"join_round": "k:3"}, "join_round"),
    ({"join_round": "a"}, "join_round"),
    ({"join_round": "a:1"}, "join_round"),
    ({"join_round": "a:101"}, "join_round"),
    ({"join_round": ",".join(f"{n}:2" for n in NAMES)}, "join_round"),
    ({"unseen_clients": "a", "join_round": "a:3"}, "join_round"),
  ],
)
def test_what_names_no_client_or_leaves_none_is_refused(settings, field):
  with pytest.raises(FieldError) as raised:
    first_rounds(**settings)
  assert raised.value.field == field


@pytest.fixture(scope="module")
def run(tmp_path_factory):
  spec = SMALL.replace(
    task_options={**SMALL.task_options, "num_clients": 20},
    unseen_clients=0.8,
    join_round="0.5:3",
    clients_per_round=None,
    pooled_baseline=True,
  )
  path = tmp_path_factory.mktemp("runs") / "newcomers"
  return experiments.run(spec, path, progress=False)


def test_unseen_clients_do_not_train_and_are_evaluated(run):
  clients, rows = run.clients, run.client_evaluations
  unseen = set(clients["client_id"][clients["unseen"]])
  late = set(clients["client_id"][clients["join_round"] > 1])
  assert (len(unseen), len(late)) == (16, 2)
  trained = run.cohorts.groupby("round")["client_id"].agg(set)
  assert not set.union(*trained) & unseen
  assert not (trained[1] | trained[2]) & late
  assert trained[3] >= late
  assert set(rows["client_id"][rows["unseen"]]) == unseen
  # All other numbers are of the clients that may take part.
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
  found = summary[newcomers.UNSEEN]
  assert found["mean"] == pytest.approx(scores.mean())
  assert found["worst"] == pytest.approx(scores.min())
  # Of 16 clients, 16 are needed: it is the least of their own lower bounds.
  assert (found["num_clients"], found["needed"]) == (16, 16)
  assert 0 <= found["bound"] <= scores.min()
  late = summary[newcomers.LATE]
  assert late["round"] == 3
  is_late = rows["join_round"] > 1
  for name, chosen in (
    ("joining", is_late),
    ("others", ~is_late & ~rows["unseen"]),
  ):
    of_group = rows[chosen].groupby("round")["accuracy"].mean()
    assert late[name]["before"] == pytest.approx(of_group[2])
    assert late[name]["after"] == pytest.approx(of_group[3])
  card = card_fairness.read(run, 3, of_global=False, client_id=None)
  assert (len(card.clients), card.num_unseen) == (4, 16)
  page = tmp_path / "page.html"
  experiments.report(run, page)
  text = page.read_text("utf-8")
  assert "Clients that come later" in text
  for sentence in newcomers.sentences(summary, run.score):
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
  # These accuracies are no shares of ten examples.
  for score, needed in ((RMSE, 14), (ACCURACY, 14)):
    found = newcomers.of_unseen(table, score) or {}
    assert (found.get("bound"), found["needed"]) == (None, needed)
  table = pd.concat([table, table])
  found = newcomers.of_unseen(table, RMSE) or {}
  # With the confidence 0.95, two of 26 errors or more are as large as it.
  assert found["bound"] == 12
  assert found["worst"] == 12


def test_a_run_goes_on_with_the_same_clients(run):
  longer = experiments.run(
    run.spec.replace(total_rounds=4), run.path, progress=False
  )
  rows = longer.client_evaluations
  for column in ("unseen", "join_round"):
    of_client = rows.groupby("client_id")[column]
    assert (of_client.nunique() == 1).all()
    assert of_client.size().eq(3).all()  # Rounds 0, 2 and 4.
  assert (longer.summary or {})[newcomers.LATE]["round"] == 3
