import numpy as np
import pandas as pd
import pytest

from tff_fair.experiments.training import exclusion

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
def test_reasons(client_ids, counted, expected):
  found = exclusion.reasons(client_ids, counted, NUM_EXAMPLES)
  assert found.tolist() == expected


def test_without_examples_known_nobody_has_none():
  assert exclusion.reasons([1], {}, None).tolist() == ["not finite"]


@pytest.mark.parametrize(
  ("excluded", "text"),
  [
    ([], None),
    ([None, None], None),
    (["not finite", None], None),  # Half are not most.
    (
      ["not finite", None, "no examples", "not finite"],
      "3 of 4 clients did not count in round 7 (2 not finite, 1 no examples)",
    ),
  ],
)
def test_most_are_told(excluded, text):
  column = np.array(excluded, dtype=object)
  assert exclusion.describe_most(column, "round 7") == text


def test_advice_names_what_to_try():
  cohorts = pd.DataFrame({"excluded": ["not finite", "not finite"]})
  text = exclusion.advise(cohorts)
  assert text.startswith("no client counted in any round")
  assert text.endswith("try a smaller client_learning_rate.")
  both = pd.DataFrame({"excluded": ["no examples", "not finite"]})
  assert "training examples" in exclusion.advise(both)


@pytest.mark.parametrize("cohorts", [None, pd.DataFrame({"client_id": [1]})])
def test_tables_of_older_runs_give_no_advice(cohorts):
  assert exclusion.advise(cohorts).endswith("the model is the initial one.")


@pytest.mark.parametrize(
  ("numbers", "text"),
  [
    ((2, 1, 1), None),  # Half are not most.
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
  assert exclusion.describe_most_of_sums(metrics, "round 7") == text
  assert exclusion.describe_most_of_sums({"num_clients": 1}, "round 7") is None


def test_nobody_counted_and_nobody_knows_why():
  table = pd.DataFrame({"excluded": [None, None]})
  assert "try a larger secure_bound" in exclusion.advise(table)
