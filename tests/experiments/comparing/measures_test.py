import math

import numpy as np
import pandas as pd
import pytest

from tests.experiments import run_folders
from tff_fair.experiments import scores
from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.measures import Value

PERCENT = measures.MEASURES["mean"]
LOWER = measures.MEASURES["std"]


def test_all_statistics_of_a_summary_are_measures():
  summary = run_folders.summarize([0.1, 0.6], [1.0, 3.0])
  columns = {measures.evaluation_column(name) for name in measures.MEASURES}
  assert columns == summary.keys() - {"loss/weighted"}


def test_measures_of_clients_are_those_of_their_evaluation():
  clients = pd.DataFrame(
    {"num_examples": [1, 3], "loss": [1.0, 3.0], "accuracy": [0.2, 0.6]}
  )
  found = measures.of_clients(clients)
  assert found.keys() == measures.MEASURES.keys()
  assert found["mean"] == pytest.approx(0.4)
  assert found["weighted"] == pytest.approx(0.5)
  assert (found["loss"], found["loss_max"], found["loss_std"]) == (2, 3, 1)


@pytest.mark.parametrize("name", ["mean", "worst_5", "jain", "entropy", "min"])
def test_what_is_better_higher(name):
  assert measures.MEASURES[name].higher_is_better


@pytest.mark.parametrize(
  "name", ["std", "variance", "angle", "kl_uniform", "loss", "loss_max"]
)
def test_what_is_better_lower(name):
  assert not measures.MEASURES[name].higher_is_better


def test_over_seeds_the_deviation_is_that_of_a_sample():
  value = measures.over_seeds(PERCENT, [0.1, 0.2, 0.4])
  assert value.mean == pytest.approx(100 * 0.7 / 3)
  assert value.std == pytest.approx(np.std([10, 20, 40], ddof=1))
  assert measures.over_seeds(PERCENT, [0.1]) == Value(10.0, None)


def test_variance_is_of_percent():
  assert measures.over_seeds(measures.MEASURES["variance"], [0.04]).mean == 400


@pytest.mark.parametrize(
  ("measure", "value", "text"),
  [
    (PERCENT, Value(12.345678, None), "12.35"),
    (PERCENT, Value(12.3, 0.456), "12.30 ± 0.46"),
    (PERCENT, Value(math.nan, math.nan), "-"),
    (PERCENT, Value(math.inf, math.nan), "inf"),
    (PERCENT, Value(-0.001, None), "0.00"),
    (measures.MEASURES["jain"], Value(0.98765, None), "0.9877"),
    (
      measures.changes(scores.ACCURACY)["mean_change"],
      Value(1.5, 0.5),
      "+1.50 ± 0.50",
    ),
    (
      measures.changes(scores.ACCURACY)["mean_change"],
      Value(-1.5, None),
      "-1.50",
    ),
  ],
)
def test_values_as_tables_show_them(measure, value, text):
  assert measures.value_text(measure, value) == text


def test_what_is_no_number_is_the_worst():
  for measure in (PERCENT, LOWER):
    keys = [measures.badness(measure, v) for v in (math.nan, 1e9, -1e9)]
    assert max(keys) == keys[0]
