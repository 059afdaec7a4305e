import numpy as np
import pandas as pd
import pytest

from tff_fair.experiments.training import rounds

pytestmark = pytest.mark.pure

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
  found = rounds.reasons_of_exclusion(client_ids, counted, NUM_EXAMPLES)
  assert found.tolist() == expected


def test_without_examples_known_nobody_has_none():
  assert rounds.reasons_of_exclusion([1], {}, None).tolist() == ["not finite"]


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
  assert rounds.describe_exclusion(column, "round 7") == text


def advice(excluded, *, idle=2):
  """Returns the advice after two rounds of a client each."""
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
  assert rounds.describe_exclusion_of_sums(metrics, "round 7") == text
  assert (
    rounds.describe_exclusion_of_sums({"num_clients": 1}, "round 7") is None
  )


def test_nobody_counted_and_nobody_knows_why():
  assert "try a larger secure_bound" in advice([None, None])
