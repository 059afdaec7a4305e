import math

import numpy as np
import pandas as pd
import pytest

from tests.experiments import run_folders
from tests.refusals import rejected
from tff_fair.experiments.analysis import measures
from tff_fair.experiments.analysis.measures import Value
from tff_fair.experiments.spec import scores

PERCENT = measures.MEASURES["mean"]
LOWER = measures.MEASURES["std"]


def test_all_statistics_of_a_summary_are_measures():
  summary = run_folders.summarize([0.1, 0.6], [1.0, 3.0])
  columns = {m.column for m in measures.MEASURES.values() if m.is_stored}
  assert columns == summary.keys() - {"loss/weighted"}
  assert len(columns) < len(measures.MEASURES)


def test_measures_of_clients_are_those_of_their_evaluation():
  clients = pd.DataFrame(
    {"num_examples": [1, 3], "loss": [1.0, 3.0], "accuracy": [0.2, 0.6]}
  )
  found = measures.of_clients(clients)
  assert found.keys() == measures.MEASURES.keys()
  assert found["mean"] == pytest.approx(0.4)
  assert found["weighted"] == pytest.approx(0.5)
  assert (found["loss"], found["loss_max"], found["loss_std"]) == (2, 3, 1)


def of_clients(values, sizes, score=scores.ACCURACY):
  clients = pd.DataFrame({"num_examples": sizes, "loss": 1.0})
  clients[score.name] = np.asarray(values, np.float64)
  for beside in score.extra_scores:
    clients[beside] = 0.5
  return measures.of_clients(clients, score)


# Clients' numbers of examples. In some cases, the worst 5, 10, 20 and 30 % of
# the examples end with a whole client; in others, they end within a client.
SIZES = [[5] * 20, [1, 2, 3, 4, 90] * 4, [*range(1, 20), 210]]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("score", [scores.ACCURACY, scores.RMSE])
def test_by_examples_each_example_counts_as_one_client(sizes, score):
  values = np.random.default_rng(0).random(20).round(1)  # Has ties.
  found = of_clients(values, sizes, score)
  examples = np.repeat(values, sizes)
  assert found["weighted_std"] == pytest.approx(np.std(examples), abs=1e-15)
  worst_first = np.sort(examples)[:: 1 if score is scores.ACCURACY else -1]
  for percent in (5, 10, 20, 30):
    count = percent * sum(sizes) // 100
    worst = np.mean(worst_first[:count])
    assert found[f"weighted_worst_{percent}"] == pytest.approx(worst)
    if len(set(sizes)) == 1:
      assert found[f"worst_{percent}"] == pytest.approx(worst)


def test_clients_without_an_error_are_uniform():
  for accuracies in ([1.0, 1.0, 1.0], [1.0]):
    found = of_clients(accuracies, np.arange(1, 1 + len(accuracies)))
    assert found["error"] == found["weighted_error"] == 0
    assert found["error_relative_std"] == 0
    assert found["weighted_error_relative_std"] == 0
    assert found["weighted_worst_5"] == 1


def test_an_rmse_is_an_error_itself():
  name = "weighted_error_relative_std"
  with rejected("columns", "cars: ", " RMSEs", value=name):
    measures.find(name, scores.RMSE, "cars")
  assert measures.find("weighted_std", scores.RMSE, "cars").scale == 1


def test_what_is_better_higher_and_what_lower():
  for name in ("mean", "worst_5", "jain", "entropy", "min"):
    assert measures.MEASURES[name].higher_is_better, name
  for name in ("std", "variance", "angle", "kl_uniform", "loss", "loss_max"):
    assert not measures.MEASURES[name].higher_is_better, name


def test_over_seeds_the_deviation_is_that_of_a_sample():
  value = measures.over_seeds(PERCENT, [0.1, 0.2, 0.4])
  assert value.mean == pytest.approx(100 * 0.7 / 3)
  assert value.std == pytest.approx(np.std([10, 20, 40], ddof=1))
  assert measures.over_seeds(PERCENT, [0.1]) == Value(10.0, None)


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


def test_nan_is_the_worst_value():
  for measure in (PERCENT, LOWER):
    keys = [measures.sort_key(measure, v) for v in (math.nan, 1e9, -1e9)]
    assert max(keys) == keys[0]
