import math

import pytest

from tff_fair.experiments.scores import RMSE
from tff_fair.experiments.training import selection


def follow(values, patience=None, criterion="mean"):
  found = selection.Selection(criterion, patience)
  accuracies = [{"mean": v, "worst_10": 1 - v} for v in values]
  return found, [
    found.add(10 * n, accuracy) for n, accuracy in enumerate(accuracies, 1)
  ]


@pytest.mark.parametrize(
  ("criterion", "round_num", "value", "improvements"),
  [
    ("mean", 30, 0.75, [True, False, True, False, False]),
    ("worst_10", 20, 0.75, [True, True, False, False, False]),
  ],
)
def test_the_first_of_the_best_is_found(
  criterion, round_num, value, improvements
):
  found, improved = follow([0.5, 0.25, 0.75, 0.75, 0.5], criterion=criterion)
  assert improved == improvements
  assert (found.round_num, found.value) == (round_num, value)


def test_of_errors_the_smallest_is_the_best():
  found = selection.Selection("mean", 2, score=RMSE)
  errors = [math.inf, 5.0, 3.0, math.nan, 3.0]
  improved = [found.add(n, {"mean": v}) for n, v in enumerate(errors, 1)]
  assert improved == [False, True, True, False, False]
  assert (found.round_num, found.value) == (3, 3.0)
  assert found.is_exhausted


def test_an_accuracy_of_zero_is_one():
  found, improved = follow([0.0, 0.0])
  assert improved == [True, False]
  assert found.round_num == 10


@pytest.mark.parametrize(
  ("values", "patience", "is_exhausted"),
  [
    ([], 1, False),
    ([0.5], 1, False),
    ([0.5, 0.5], 1, True),
    ([0.5, 0.4, 0.5], 2, True),
    ([0.5, 0.4, 0.6, 0.6], 2, False),
    ([0.5] * 100, None, False),
  ],
)
def test_patience_ends_without_improvement(values, patience, is_exhausted):
  assert follow(values, patience)[0].is_exhausted == is_exhausted
