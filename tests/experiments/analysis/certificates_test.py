"""Tests of the certificate of a run, on tables made by hand."""

import types

import numpy as np
import pandas as pd
import pytest

from tff_fair.experiments import RunSpec
from tff_fair.experiments.analysis import certificates
from tff_fair.experiments.runs import summaries
from tff_fair.experiments.texts import sentences

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
  assert certificates.measured_stationarity(ROUNDS) == {1: 0.5, 2: 0.125}
  assert certificates.stationarity(ROUNDS, COHORTS) == {
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
  assert certificates.stationarity(rounds, COHORTS) is None
  assert sentences.stationarity({}) is None


def test_the_sentence_has_the_numbers():
  found = certificates.stationarity(ROUNDS, COHORTS)
  told = sentences.stationarity({summaries.STATIONARITY: found})
  assert told is not None
  for number in ("round 2", "0.125", "67 %", "2 of them block"):
    assert number in told


# Tests of the changes of coefficients.


TASK = types.SimpleNamespace(
  train=types.SimpleNamespace(num_examples=np.array([10, 30, 60])),
  client_weights=np.array([1.0, 3.0, 5.0]),
)


def cohorts(*rows):
  return pd.DataFrame(rows, columns=["round", "client_id", "coefficient"])


def change(table, **settings):
  spec = RunSpec(**{"algorithm": "semi_vred", **settings})
  return certificates.coefficient_change(spec, table, TASK)


def test_it_is_the_largest_of_all_rounds():
  table = cohorts(
    *((1, 0, 0.1), (1, 1, 0.3), (1, 2, 0.6)),
    *((2, 0, 0.26), (2, 1, 0.74), (2, 2, None)),
  )
  assert change(table) == pytest.approx(0.04)


def test_weights_are_those_of_the_run():
  table = cohorts((1, 0, 0.5), (1, 1, 0.5))
  assert change(table) == pytest.approx(1.0)
  assert change(table, client_weighting="uniform") == 0
  assert change(table, client_weighting="column") == pytest.approx(1.0)
  uneven = cohorts((1, 0, 0.25), (1, 1, 0.75))
  assert change(uneven, client_weighting="column") == pytest.approx(0)
  # FedFV does not weight clients.
  assert change(table, algorithm="fedfv") == 0


@pytest.mark.parametrize("algorithm", ["fedavg", "fedadam", "ditto"])
def test_methods_without_coefficients_of_their_own_have_none(algorithm):
  assert change(cohorts((1, 0, 1.0)), algorithm=algorithm) is None


def test_a_run_that_recorded_none_has_none():
  assert change(cohorts((1, 0, None), (1, 1, None))) is None


@pytest.mark.parametrize(
  ("value", "words"),
  [(0.0, "0 %"), (0.0003, "0.03 %"), (0.01, None), (2.0, None), (None, None)],
)
def test_only_a_small_change_of_coefficients_is_mentioned(value, words):
  told = sentences.coefficient_change({summaries.COEFFICIENT_CHANGE: value})
  assert (told is None) == (words is None)
  assert words is None or f"more than {words}" in str(told)
