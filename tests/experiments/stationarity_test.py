"""Tests of the certificate of a run, on tables made by hand."""

import numpy as np
import pandas as pd
import pytest

from tff_fair.experiments import stationarity

ROUNDS = pd.DataFrame(
  {
    "round": [1, 2, 3],
    "aggregator/num_clients": [2, 3, 0],
    "aggregator/pareto_stationarity": [0.5, 0.125, np.nan],
    "aggregator/share_descending": [1.0, 2 / 3, np.nan],
  }
)
COHORTS = pd.DataFrame(
  {
    "round": [1, 1, 2, 2, 2, 2, 3],
    "client_id": [4, 7, 1, 4, 7, 9, 4],
    "blocking_weight": [1.0, 0.0, 0.7, 1e-9, 0.3, np.nan, np.nan],
  }
)


def test_the_last_round_with_clients_counts():
  assert stationarity.measured(ROUNDS) == {1: 0.5, 2: 0.125}
  assert stationarity.of_run(ROUNDS, COHORTS) == {
    "round": 2,
    "pareto_stationarity": 0.125,
    "share_descending": 2 / 3,
    "num_clients": 3,
    "blocking": [1, 7],
  }


@pytest.mark.parametrize(
  "rounds",
  [
    ROUNDS.tail(1),
    ROUNDS.iloc[:0],
    ROUNDS[["round", "aggregator/num_clients"]],
  ],
)
def test_a_run_that_has_measured_nothing_has_none(rounds):
  assert stationarity.of_run(rounds, COHORTS) is None
  assert stationarity.sentence({}) is None


def test_the_sentence_has_the_numbers():
  found = stationarity.of_run(ROUNDS, COHORTS)
  told = stationarity.sentence({stationarity.KEY: found})
  assert told is not None
  for number in ("round 2", "0.125", "67 %", "2 of them block"):
    assert number in told
