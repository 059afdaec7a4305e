import types

import numpy as np
import pandas as pd
import pytest

from tff_fair.experiments import RunSpec, coefficient_change

TASK = types.SimpleNamespace(
  train=types.SimpleNamespace(num_examples=np.array([10, 30, 60])),
  client_weights=np.array([1.0, 3.0, 5.0]),
)


def cohorts(*rows):
  return pd.DataFrame(rows, columns=["round", "client_id", "coefficient"])


def change(table, **settings):
  spec = RunSpec(**{"algorithm": "semi_vred", **settings})
  return coefficient_change.of_run(spec, table, TASK)


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
  # FedFV has no weights of clients.
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
def test_a_small_one_is_said(value, words):
  told = coefficient_change.sentence({coefficient_change.KEY: value})
  assert (told is None) == (words is None)
  assert words is None or f"more than {words}" in str(told)
