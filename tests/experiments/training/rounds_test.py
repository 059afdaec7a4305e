import collections
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from tff_fair.experiments.training import rounds, sampling
from tff_fair.experiments.training.round_state import RoundState

pytestmark = pytest.mark.pure


class Data:
  """Clients' data: one value each."""

  def __init__(self, value):
    self.value = value
    self.prepared = []

  def __call__(self, client_ids):
    return list(map(self.value, client_ids))

  def prepare(self, client_ids):
    self.prepared.append(client_ids)


def round_state(round_num, process_state=None, **results):
  """Returns the state of a round, as callbacks get it."""
  return RoundState(
    round_num=round_num,
    process_state=process_state,
    get_model_weights=lambda state: state,
    **results,
  )


class Output(NamedTuple):
  state: float
  metrics: collections.OrderedDict


class Process:
  """A process whose state is the sum of the data."""

  def __init__(self, aggregator):
    self._aggregator = aggregator

  def initialize(self):
    return 0.5

  def next(self, state, client_data):
    metrics = collections.OrderedDict(
      client_work={"loss": 0.25},
      aggregator=collections.OrderedDict(self._aggregator),
    )
    return Output(state + sum(client_data), metrics)

  def get_model_weights(self, state):
    return state


def training_of(aggregator=(), **settings):
  return rounds.RoundRunner(
    process=Process(dict(aggregator)),
    sample=lambda round_num: sampling.DrawnCohort(
      [1, 3, 4, round_num], [1, 3, 4] if round_num < 9 else [5]
    ),
    train_data=Data(lambda k: 10.0**k),
    last_round=9,
    costs=lambda state, cohort: {"paid": state * len(cohort.drawn)},
    num_examples=np.ones(9),
    **settings,
  )


def run(aggregator=(), losses=None):
  training = training_of(aggregator, losses=losses)
  return training.run(training.initial_state(), 8)


def columns(result):
  return {name: column.tolist() for name, column in result.clients.items()}


def test_clients_that_report_take_part():
  result = run({"num_clients": 3})
  assert result.process_state == 11010.5
  # Costs are computed from the state before the round and the clients drawn.
  assert result.costs == {"paid": 2.0}
  assert result.timing["round_seconds"] >= 0
  assert result.metrics == {
    "client_work": {"loss": 0.25},
    "aggregator": {"num_clients": 3},
  }
  assert columns(result) == {
    "client_id": [1, 3, 4],
    "coefficient": [None] * 3,
    "loss_before": [None] * 3,
    "loss_after": [None] * 3,
    "loss": [None] * 3,
    "blocking_weight": [None] * 3,
    # This aggregator does not report exclusions.
    "excluded": [None] * 3,
  }


@pytest.mark.parametrize("is_of_method", [True, False])
def test_losses_below_zero_are_noted_once(is_of_method):
  training = training_of(
    {"client_ids": [1, 3, 4], "client_losses": [0.0, -0.5, 0.1]},
    counts_negative_as_zero=is_of_method,
  )
  first, second = (
    training.run(training.initial_state(), number).notes for number in (5, 6)
  )
  assert second == []
  assert len(first) == is_of_method
  assert all("1 of 3 clients" in text and "round 5" in text for text in first)


def test_the_next_round_is_prepared_before_this_one_computes():
  training = training_of()
  training.run(training.initial_state(), 8)
  assert training.train_data.prepared == [[5]]
  training.run(training.initial_state(), 9)  # The last round.
  assert training.train_data.prepared == [[5]]


@pytest.mark.parametrize("ids", [[4, 1], [], [1, 3, 4]])
def test_values_of_single_clients_become_columns(ids):
  coefficients = np.arange(len(ids)) + 0.5
  result = run(
    {
      "num_clients": 3,
      "client_ids": np.array(ids, np.int64),
      "coefficients": np.array(coefficients, np.float32),
      "client_losses": np.array(coefficients + 7, np.float32),
      "blocking_weights": np.array(coefficients / 2, np.float32),
    }
  )
  assert result.metrics["aggregator"] == {"num_clients": 3}
  assert list(result.metrics) == ["client_work", "aggregator"]
  expected = dict(zip(ids, coefficients, strict=True))
  # A client that did not count has no coefficient.
  assert columns(result)["coefficient"] == [expected.get(k) for k in (1, 3, 4)]
  losses = [expected[k] + 7 if k in expected else None for k in (1, 3, 4)]
  assert columns(result)["loss"] == losses
  weights = [expected[k] / 2 if k in expected else None for k in (1, 3, 4)]
  assert columns(result)["blocking_weight"] == weights


@pytest.mark.parametrize(
  ("aggregator", "expected"),
  [
    ({}, None),
    ({"num_clients": 3}, None),
    ({"num_clients": 3, "pareto_stationarity": np.float32(0.25)}, 0.25),
    # Stationarity is not defined for a round without clients.
    ({"num_clients": 0, "pareto_stationarity": np.float32(0)}, None),
  ],
)
def test_stationarity_is_that_of_a_round_with_clients(aggregator, expected):
  assert rounds.stationarity(run(aggregator)) == expected


def test_improvement_is_measured_on_the_clients_of_the_round():
  asked = []

  def losses(state, client_ids):
    asked.append((state, client_ids))
    is_first = state == 0.5
    return np.array([1.0, 2.0, 3.0] if is_first else [1.0, 2.5, np.nan])

  result = run(losses=losses)
  assert asked == [(0.5, [1, 3, 4]), (11010.5, [1, 3, 4])]
  # Only the equal loss did not rise: a NaN loss counts as a rise.
  assert result.metrics["improved_share"] == pytest.approx(1 / 3)
  assert columns(result)["loss_before"] == [1.0, 2.0, 3.0]
  np.testing.assert_array_equal(result.clients["loss_after"], [1, 2.5, np.nan])


# Tests of clients that do not count.


NUM_EXAMPLES = np.array([5, 0, 5, 5])


@pytest.mark.parametrize(
  ("client_ids", "counted", "expected"),
  [
    ([0, 2], {0: 0.5, 2: 0.5}, [None, None]),
    ([0, 1, 3], {0: 1.0}, [None, "no examples", "not finite"]),
    ([2, 3], {}, ["not finite", "not finite"]),
    ([1, 3], None, [None, None]),
    ([], {}, []),
  ],
)
def test_reasons_of_exclusion(client_ids, counted, expected):
  found = rounds.reasons_of_exclusion(client_ids, counted, NUM_EXAMPLES)
  assert found.tolist() == expected


@pytest.mark.parametrize(
  ("excluded", "text"),
  [
    ([], None),
    ([None, None], None),
    (["not finite", None], None),  # Half is no majority.
    (
      ["not finite", None, "no examples", "not finite"],
      "3 of 4 clients did not count in round 7 (2 not finite, 1 no examples)",
    ),
  ],
)
def test_exclusion_of_most_is_told(excluded, text):
  column = np.array(excluded, dtype=object)
  assert rounds.describe_exclusion(column, "round 7") == text


def advice(excluded, *, idle=2):
  """Returns the advice after two rounds with a client each."""
  cohorts = pd.DataFrame({"round": [1, 2], "excluded": excluded})
  return rounds.advise_on_idle_rounds(cohorts, idle, 2)


def test_advice_names_what_to_try():
  text = advice(["not finite", "not finite"])
  assert text.startswith("no client counted in any round")
  assert "smaller client_learning_rate" in text
  assert "training examples" in advice(["no examples", "not finite"])


def test_advice_is_of_the_last_rounds():
  text = advice(["no examples", "not finite"], idle=1)
  assert "the last 1 of 2 rounds" in text
  assert "that of round 1" in text
  assert "training examples" not in text


@pytest.mark.parametrize(
  ("numbers", "text"),
  [
    ((2, 1, 1), None),  # Half is no majority.
    (
      (1, 1, 2),
      "3 of 4 clients did not count in round 7 (2 out of bounds: try a larger "
      "secure_bound; 1 for other reasons)",
    ),
  ],
)
def test_most_of_a_cohort_of_which_only_numbers_are_known(numbers, text):
  names = ("num_clients", "num_clients_excluded", "num_clients_out_of_bounds")
  metrics = dict(zip(names, numbers, strict=True))
  assert rounds.describe_exclusion_of_sums(metrics, "round 7") == text
  assert (
    rounds.describe_exclusion_of_sums({"num_clients": 1}, "round 7") is None
  )
