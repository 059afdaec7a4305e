"""Tests of the fairness summary."""

import math

import numpy as np
import pandas as pd
import pytest

from tff_fair.metrics import error_summary, fairness_summary

RANKED = {
  *(f"{end}_{q}" for end in ("worst", "best") for q in (5, 10, 20, 30)),
  *(f"percentile_{p}" for p in (10, 50, 90)),
}
# For equal clients, measures of level are their accuracy, and spreads are 0.
LEVELS = {"mean", "min", "max", *RANKED}
SPREADS = {"std", "variance", "relative_std", "angle", "kl_uniform", "gini"}
KEYS = LEVELS | SPREADS | {"jain", "entropy"}


def summary_of_equal(accuracy, num_clients):
  """Returns the summary of clients that are all alike."""
  return {
    **dict.fromkeys(LEVELS, accuracy),
    **dict.fromkeys(SPREADS, 0.0),
    "jain": 1.0,
    "entropy": math.log(num_clients),
  }


def textbook_summary(accuracies):
  """Returns the summary by the papers' definitions, on plain Python numbers."""
  a = sorted(float(x) for x in np.asarray(accuracies, np.float64))
  k = len(a)
  total = math.fsum(a)
  squares = math.fsum(x * x for x in a)
  variance = math.fsum((x - total / k) ** 2 for x in a) / k
  shares = [x / total for x in a]
  entropy = -math.fsum(p * math.log(p) for p in shares if p > 0)
  result = {
    "mean": total / k,
    "std": variance**0.5,
    "variance": variance,
    "min": a[0],
    "max": a[-1],
    "relative_std": variance**0.5 / (total / k),
    "angle": math.degrees(math.acos(min(1, total / math.sqrt(k * squares)))),
    "kl_uniform": math.fsum(p * math.log(p * k) for p in shares if p > 0),
    "jain": total**2 / (k * squares),
    "gini": math.fsum(abs(x - y) for x in a for y in a) / (2 * k * total),
    "entropy": entropy,
  }
  for q in (5, 10, 20, 30):
    count = (q * k + 99) // 100
    result[f"worst_{q}"] = math.fsum(a[:count]) / count
    result[f"best_{q}"] = math.fsum(a[-count:]) / count
  for p in (10, 50, 90):
    result[f"percentile_{p}"] = float(np.percentile(a, p))
  return result


@pytest.mark.parametrize("num_clients", [1, 2, 3, 10, 19, 20, 21, 100, 1001])
@pytest.mark.parametrize("seed", [0, 1])
def test_agrees_with_the_definitions(num_clients, seed):
  accuracies = np.random.default_rng(seed).beta(2, 1, num_clients)
  expected = textbook_summary(accuracies)
  assert expected.keys() == KEYS
  # Near equality, the arccos has only half of the digits.
  assert fairness_summary(accuracies) == pytest.approx(
    expected, rel=1e-12, abs=1e-6 if num_clients == 1 else 1e-12
  )


@pytest.mark.parametrize(
  "accuracies",
  [
    [0.0, 1.0],
    [1.0, 0.0, 0.0, 0.0],
    [0.5, 0.5, 0.5, 0.25, 0.25, 1.0],
    [1e-9, 1.0, 1e-9],
    [1e-12, 3e-12, 2e-12],
    [0.7] * 20 + [0.0],
  ],
  ids=str,
)
def test_agrees_with_the_definitions_on_hard_cases(accuracies):
  assert fairness_summary(accuracies) == pytest.approx(
    textbook_summary(accuracies), rel=1e-12, abs=1e-13
  )


@pytest.mark.parametrize("num_clients", [1, 3, 7, 50])
@pytest.mark.parametrize("accuracy", [0, 0.1, 0.3, 1 / 3, 0.7, 1, 1e-300])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_clients_are_exactly_fair(num_clients, accuracy, weighted):
  num_examples = np.arange(1, num_clients + 1) if weighted else None
  summary = fairness_summary([accuracy] * num_clients, num_examples)
  assert summary == summary_of_equal(accuracy, num_clients)


def test_small_differences_keep_their_digits():
  low, high = 0.3, 0.3 + 1e-13
  std = (high - low) * math.sqrt(2) / 3
  summary = fairness_summary([low, low, high])
  assert summary["std"] == pytest.approx(std, rel=1e-6, abs=0)
  assert summary["angle"] == pytest.approx(
    math.degrees(std / low), rel=1e-6, abs=0
  )


@pytest.mark.parametrize("spread", [1e-16, 1e-12, 1e-8])
def test_divergence_is_never_negative(spread):
  rng = np.random.default_rng(8)
  for accuracies in 0.3 + spread * rng.uniform(size=(50, 7)):
    assert fairness_summary(accuracies)["kl_uniform"] >= 0.0


def test_one_client_that_has_everything_is_the_extreme():
  summary = fairness_summary([0.0, 0.0, 1.0, 0.0, 0.0])
  assert summary["jain"] == pytest.approx(1 / 5)
  assert summary["gini"] == pytest.approx(4 / 5)
  assert summary["angle"] == pytest.approx(
    math.degrees(math.acos(1 / math.sqrt(5)))
  )
  assert summary["kl_uniform"] == pytest.approx(math.log(5))
  assert summary["entropy"] == pytest.approx(0, abs=1e-15)


def test_order_of_clients_does_not_matter():
  rng = np.random.default_rng(3)
  accuracies = rng.integers(0, 5, 40) / 4  # Many ties.
  num_examples = rng.integers(1, 1000, 40)
  order = rng.permutation(40)
  assert fairness_summary(
    accuracies[order], num_examples[order]
  ) == pytest.approx(fairness_summary(accuracies, num_examples), rel=1e-12)


@pytest.mark.parametrize(
  "wrap", [list, tuple, np.asarray, np.float32, pd.Series]
)
def test_takes_any_sequence(wrap):
  accuracies = [0.25, 0.5, 1.0]
  num_examples = [3, 1, 2]
  assert fairness_summary(
    wrap(accuracies), wrap(num_examples)
  ) == fairness_summary(accuracies, num_examples)


def test_returns_plain_floats():
  accuracies = np.array([0.1, 0.9], np.float32)
  summary = fairness_summary(accuracies, np.array([1, 2]))
  assert {type(value) for value in summary.values()} == {float}


def test_the_input_is_left_alone():
  accuracies = np.array([0.9, 0.1, 1.0000001])
  fairness_summary(accuracies)
  assert accuracies.tolist() == [0.9, 0.1, 1.0000001]


def test_float32_rounding_is_clipped():
  summary = fairness_summary([float(np.float32(1.0000001)), -1e-9])
  assert summary["max"] == 1.0
  assert summary["min"] == 0.0


class TestWeightedByExamples:
  @pytest.mark.parametrize("num_clients", [1, 2, 7, 25, 30, 101])
  @pytest.mark.parametrize("size", [1, 3, 1e-9, 1e308])
  def test_equal_sizes_are_the_same_as_none(self, num_clients, size):
    accuracies = np.random.default_rng(5).uniform(size=num_clients)
    assert fairness_summary(
      accuracies, np.full(num_clients, size)
    ) == pytest.approx(fairness_summary(accuracies), rel=1e-12, abs=1e-12)

  def test_moments_are_those_of_the_examples(self):
    """A client with n examples weighs as much as n clients of its accuracy."""
    rng = np.random.default_rng(6)
    accuracies = rng.uniform(size=12)
    num_examples = rng.integers(1, 50, 12)
    summary = fairness_summary(accuracies, num_examples)
    examples = textbook_summary(np.repeat(accuracies, num_examples))
    same = KEYS - RANKED - {"entropy"}
    assert {key: summary[key] for key in same} == pytest.approx(
      {key: examples[key] for key in same}, rel=1e-11
    )
    assert summary["entropy"] == pytest.approx(
      math.log(12) - examples["kl_uniform"]
    )

  def test_tails_and_percentiles_are_shares_of_the_examples(self):
    """With these sizes, each tail ends between two examples."""
    rng = np.random.default_rng(7)
    num_clients = 20
    accuracies = rng.uniform(size=num_clients)
    num_examples = np.array([20, 40, 60, 80] * 5)
    each = int(num_examples.mean())
    examples = np.sort(np.repeat(accuracies, num_examples))
    summary = fairness_summary(accuracies, num_examples)
    for q, clients in {5: 1, 10: 2, 20: 4, 30: 6}.items():
      worst = examples[: clients * each].mean()
      best = examples[-clients * each :].mean()
      assert summary[f"worst_{q}"] == pytest.approx(worst)
      assert summary[f"best_{q}"] == pytest.approx(best)
    for p in (10, 50, 90):
      first = p * (num_clients - 1) * each // 100
      expected = examples[first : first + each].mean()
      assert summary[f"percentile_{p}"] == pytest.approx(expected)

  def test_by_hand(self):
    summary = fairness_summary([0.2, 0.8], [30, 10])
    assert summary["mean"] == pytest.approx(0.35)
    assert summary["variance"] == pytest.approx(0.75 * 0.25 * 0.6**2)
    # A tail is one of two clients, so 20 of 40 examples. The worst 20 are from
    # the first client; the best 20 are 10 from each client.
    assert summary["worst_30"] == pytest.approx(0.2)
    assert summary["best_30"] == pytest.approx(0.5)
    # Averages examples 11 to 30, which are all from the first client.
    assert summary["percentile_50"] == pytest.approx(0.2)
    # Averages examples 19 to 38.
    assert summary["percentile_90"] == pytest.approx((12 * 0.2 + 8 * 0.8) / 20)

  def test_a_huge_client_drowns_the_others(self):
    summary = fairness_summary([0.0, 0.5, 1.0], [1e-6, 1e12, 1.0])
    assert summary["mean"] == pytest.approx(0.5)
    assert summary["worst_5"] == pytest.approx(0.5)
    assert summary["best_5"] == pytest.approx(0.5)
    assert summary["std"] == pytest.approx(0, abs=1e-5)
    assert (summary["min"], summary["max"]) == (0.0, 1.0)


@pytest.mark.parametrize(
  ("accuracies", "message"),
  [
    ([], "accuracies "),
    (0.5, r"rank 1.*\(\)"),
    ([[0.5, 0.5]], r"rank 1.*\(1, 2\)"),
    ([0.5, float("nan")], "nan .*1"),
    ([float("inf")], "inf .*0"),
    ([0.5, None], "nan .*1"),
    ([0.5, -0.01], "-0.01 .*1"),
    ([93.5, 40.0], r"\[0, 1\].* 93.5 .*0"),
    ([0.5, 1.00001], "1.00001 .*1"),
    (["high"], "numbers"),
    ([[0.5], [0.5, 0.5]], "numbers"),
    ({0: 0.5}, "numbers"),
  ],
)
def test_bad_accuracies_are_refused(accuracies, message):
  with pytest.raises(ValueError, match=message):
    fairness_summary(accuracies)


@pytest.mark.parametrize(
  ("num_examples", "message"),
  [
    ([], "num_examples "),
    ([1], "2 .*accuracies, 1 .*num_examples"),
    ([1, 2, 3], "2 .*accuracies, 3 .*num_examples"),
    ([1, 0], "num_examples .* 0.0 .*1"),
    ([-1, 1], "-1.0 .*0"),
    ([1, float("nan")], "nan .*1"),
    ([1, float("inf")], "inf .*1"),
    ([[1, 2]], "rank 1"),
    (7, "rank 1"),
  ],
)
def test_bad_num_examples_are_refused(num_examples, message):
  with pytest.raises(ValueError, match=message):
    fairness_summary([0.5, 0.6], num_examples)


def textbook_errors(errors):
  """Returns a summary of errors; the worst clients have the largest ones."""
  found = textbook_summary(errors)
  ends = {key: found[key] for key in found if key.startswith(("worst", "best"))}
  swapped = {
    key.replace("worst", "x").replace("best", "worst").replace("x", "best"): v
    for key, v in ends.items()
  }
  return {**found, **swapped}


@pytest.mark.parametrize("num_clients", [1, 2, 9, 11, 100])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 5e4])
def test_errors_agree_with_the_definitions(num_clients, scale):
  errors = scale * np.random.default_rng(num_clients).gamma(2, 1, num_clients)
  expected = textbook_errors(errors)
  summary = error_summary(errors)
  assert summary.keys() == KEYS
  for name, value in expected.items():
    assert summary[name] == pytest.approx(
      value, rel=1e-9, abs=1e-6 if name == "angle" else scale * 1e-12
    ), name
  assert summary["best_10"] <= summary["mean"] <= summary["worst_10"]


def test_errors_of_weighted_clients_are_those_of_their_copies():
  errors, counts = [3.0, 700.0, 0.5, 40.0], [2, 1, 4, 3]
  copies = error_summary(np.repeat(errors, counts))
  weighted = error_summary(errors, counts)
  for name in KEYS - RANKED - {"entropy"}:
    assert weighted[name] == pytest.approx(copies[name], rel=1e-12)
  # The worst 2 of 4 clients stand for 5 of 10 examples.
  assert weighted["worst_30"] == pytest.approx((700 + 3 * 40 + 3) / 5)


def test_errors_that_are_all_zero_are_shared_evenly():
  summary = error_summary([0.0, 0.0])
  assert (summary["mean"], summary["worst_10"], summary["jain"]) == (0, 0, 1)


@pytest.mark.parametrize("errors", [[math.inf], [math.inf] * 3, [2, math.inf]])
def test_a_model_that_diverged_has_an_infinite_error(errors):
  summary = error_summary(errors)
  assert summary.keys() == KEYS
  for name in ("mean", "max", "worst_5", "worst_30"):
    assert summary[name] == math.inf
  assert summary["min"] == min(errors)
  assert math.isnan(summary["std"])
  assert summary["best_10"] == min(errors)


@pytest.mark.parametrize("num_infinite", range(1, 11))
def test_tails_and_percentiles_that_reach_no_infinity_are_finite(num_infinite):
  errors = np.arange(1.0, 12.0)  # 11 clients: percentiles are ranks.
  errors[11 - num_infinite :] = math.inf
  summary = error_summary(errors)
  for percent, rank in ((10, 1), (50, 5), (90, 9)):
    assert summary[f"percentile_{percent}"] == errors[rank]
  for percent in (5, 10, 20, 30):
    size = math.ceil(percent * 11 / 100)
    assert summary[f"best_{percent}"] == errors[:size].mean()
    assert summary[f"worst_{percent}"] == math.inf


def test_an_infinite_error_counts_by_its_examples():
  # A third of the examples is one unit: 0.3 units have the error 1, 1.8 have 2.
  summary = error_summary([2, math.inf, 1], [6, 3, 1])
  assert summary["best_30"] == pytest.approx(0.3 * 1 + 0.7 * 2)
  assert summary["percentile_10"] == pytest.approx(0.1 * 1 + 0.9 * 2)
  assert summary["percentile_50"] == 2
  assert summary["percentile_90"] == math.inf


@pytest.mark.parametrize(
  ("errors", "message"),
  [
    ([], "errors "),
    ([1, -0.5], r"\[0, inf\].* -0.5 .*1"),
    ([math.nan, 1], "nan .*0"),
  ],
)
def test_bad_errors_are_refused(errors, message):
  with pytest.raises(ValueError, match=message):
    error_summary(errors)
