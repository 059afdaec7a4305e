"""Tests of gaps between groups, against scikit-learn and by enumeration."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as sklearn_metrics

from tff_fair import metrics
from tff_fair.metrics import group_gaps

_GROUPS = 3


@pytest.fixture(scope="module")
def examples():
  generator = np.random.default_rng(7)
  groups = generator.integers(0, _GROUPS, 900)
  y = generator.integers(0, 3, 900)
  # The second group is predicted less well.
  is_wrong = generator.random(900) < np.where(groups == 1, 0.5, 0.2)
  return y, np.where(is_wrong, (y + 1) % 3, y), groups


def expected(examples):
  """Returns each group's accuracy and rates of class 2, by scikit-learn."""
  y, predicted, groups = examples
  found = {name: [] for name in ("accuracy", "rate", "true", "false")}
  for group in range(_GROUPS):
    of = groups == group
    is_own, is_found = y[of] == 2, predicted[of] == 2
    (tn, fp), _ = sklearn_metrics.confusion_matrix(is_own, is_found)
    found["accuracy"].append(
      sklearn_metrics.accuracy_score(y[of], predicted[of])
    )
    found["rate"].append(is_found.mean())
    found["true"].append(sklearn_metrics.recall_score(is_own, is_found))
    found["false"].append(fp / (fp + tn))
  return {name: np.array(values) for name, values in found.items()}


def test_gaps_are_those_of_scikit_learns_shares(examples):
  y, predicted, groups = examples
  counts = group_gaps.count(y, predicted, groups, _GROUPS, 2)
  shares = expected(examples)
  spread = {name: np.ptp(values) for name, values in shares.items()}
  for name, value in {
    "accuracy_parity": spread["accuracy"],
    "demographic_parity": spread["rate"],
    "equal_opportunity": spread["true"],
    "equalized_odds": max(spread["true"], spread["false"]),
  }.items():
    gap = metrics.group_gap(name, counts)
    assert gap.value == pytest.approx(value)
    assert 0 <= gap.low <= gap.value <= gap.high <= 1
  assert metrics.group_gap("accuracy_parity", counts).lowest == 1


def test_the_counts_of_clients_add_up(examples):
  y, predicted, groups = examples
  whole = group_gaps.count(y, predicted, groups, _GROUPS, 2)
  parts = [
    group_gaps.count(y[k::4], predicted[k::4], groups[k::4], _GROUPS, 2)
    for k in range(4)
  ]
  for total, *addends in zip(whole, *parts, strict=True):
    np.testing.assert_array_equal(total, np.sum(addends, 0))


def counts_of(hits, examples):
  zeros = np.zeros(len(hits), np.int64)
  return metrics.GroupCounts(np.array(examples), np.array(hits), *[zeros] * 3)


def test_newcombes_interval():
  # Newcombe's example of 56/70 and 48/80: 0.2 [0.0524, 0.3339].
  gap = metrics.group_gap("accuracy_parity", counts_of([48, 56], [80, 70]))
  assert gap == pytest.approx((0.2, 0.0524, 0.3339, 1, 0), abs=5e-5)


def test_small_groups_are_left_out():
  counts = counts_of([0, 15, 19], [19, 20, 20])
  gap = metrics.group_gap("accuracy_parity", counts)
  assert (gap.value, gap.highest, gap.lowest) == (pytest.approx(0.2), 2, 1)
  assert metrics.group_gap("accuracy_parity", counts, least=21) is None
  # No group has examples of the class.
  assert metrics.group_gap("equal_opportunity", counts, least=0) is None


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_equal_groups_are_seldom_told_apart(share):
  """Enumerates all outcomes for two groups with equal shares."""
  first, second = np.arange(31), np.arange(41)
  chance = np.outer(
    stats.binom.pmf(first, 30, share), stats.binom.pmf(second, 40, share)
  )
  wrong = sum(
    chance[a, b]
    for a in first
    for b in second
    if chance[a, b] > 1e-6
    and metrics.group_gap("accuracy_parity", counts_of([a, b], [30, 40])).low
    > 0
  )
  assert 0.01 < wrong < 0.06
