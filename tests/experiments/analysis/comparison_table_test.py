import numpy as np
import pytest

from tests.experiments.analysis.example_results import clients, seeds
from tff_fair.experiments.analysis import comparison_table, measures
from tff_fair.experiments.analysis.comparison_table import BEST, SECOND, Wins


def test_a_record_counts_each_client_once():
  method = seeds([0.5, 0.5, 0.1, 0.3], [0.9, 0.5, 0.1, 0.3 + 1e-9])
  baseline = seeds([0.6, 0.5, 0.2, 0.3], [0.3, 0.5, 0.2, 0.3])
  assert comparison_table.count_wins(method, baseline) == Wins(
    wins=1, ties=2, losses=1
  )


def test_only_clients_that_both_have_win():
  method = {0: [clients([0.9, 0.5, 0.7], ids=[1, 2, 5])], 1: [clients([0.1])]}
  baseline = {0: [clients([0.4, 0.5, 0.1], ids=[2, 5, 9])]}
  assert comparison_table.count_wins(method, baseline) == Wins(2, 0, 0)
  assert comparison_table.count_wins(method, {}) == Wins(0, 0, 0)


# Tests of which methods a column marks as the best and the second best.


MEAN = measures.MEASURES["mean"]
NOISE = np.random.default_rng(0).standard_normal((10, 5, 30)) * 0.01


def method(level, noise, num_seeds=5, first_seed=0):
  return {
    first_seed + seed: [clients(np.clip(level + noise[seed], 0, 1))]
    for seed in range(num_seeds)
  }


def of_column(methods, name="mean"):
  measure = measures.MEASURES[name]
  means = [
    measure.scale
    * np.mean([measures.of_equal(measure, e[0]) for e in m.values()])
    for m in methods
  ]
  return comparison_table.marks_of_column(measure, methods, means)


def at(*levels, **kwargs):
  return [
    method(level, noise, **kwargs)
    for level, noise in zip(levels, NOISE, strict=False)
  ]


def test_the_best_is_marked_alone_if_all_others_are_told_from_it():
  assert of_column(at(0.5, 0.9, 0.7)) == [None, BEST, SECOND]


def test_all_that_cannot_be_told_from_the_best_are_marked_with_it():
  # The second mean is among the best, so no method is the second best.
  assert of_column(at(0.9, 0.9, 0.5, 0.3)) == [BEST, BEST, None, None]
  assert of_column(at(0.9, 0.9, 0.9)) == [BEST, BEST, BEST]


def test_the_second_best_is_never_the_last():
  assert of_column(at(0.9, 0.5)) == [BEST, None]
  assert of_column(at(*[0.9] * 5, 0.5)) == [*[BEST] * 5, None]


def test_less_is_better_in_some_columns():
  wide = method(0.5, NOISE[0] * 20)
  middle = method(0.5, NOISE[1] * 8)
  narrow = method(0.5, NOISE[2])
  assert of_column([wide, narrow, middle], "std") == [None, BEST, SECOND]


def test_equal_results_have_the_same_mark():
  same = method(0.5, NOISE[0])
  assert of_column([same, same]) == [None, None]
  worse = method(0.1, NOISE[1])
  assert of_column([same, same, worse]) == [BEST, BEST, None]


def test_one_seed_has_no_mark():
  assert of_column(at(0.5, 0.9, 0.7, num_seeds=1)) == [None] * 3
  # A method with one seed does not prevent marks for other methods.
  alone = method(0.95, NOISE[0], num_seeds=1)
  assert of_column([alone, *at(0.5, 0.9, 0.7)]) == [None, None, BEST, SECOND]


def test_methods_need_seeds_in_common_with_the_best():
  other = method(0.5, NOISE[3], first_seed=100)
  assert of_column([*at(0.9, 0.7, 0.5), other]) == [BEST, SECOND, None, None]


def test_nan_has_no_mark():
  methods, nan = at(0.9, 0.5, 0.4), float("nan")
  found = comparison_table.marks_of_column(MEAN, methods, [nan, 50.0, 40.0])
  assert found == [None, BEST, None]
  assert (
    comparison_table.marks_of_column(MEAN, methods, [nan] * 3) == [None] * 3
  )
  assert comparison_table.marks_of_column(MEAN, [], []) == []


@pytest.mark.parametrize(
  ("num_seeds", "note"),
  [
    ({"a": 2, "b": 3}, ""),
    ({"a": 1, "b": 3}, "1 seed: no uncertainty, so no mark: a."),
    (
      {"a": 1, "b": 1},
      "1 seed: no uncertainty, so no value is marked as the best.",
    ),
  ],
)
def test_methods_without_marks_are_named(num_seeds, note):
  assert comparison_table.marks_note(num_seeds) == note
