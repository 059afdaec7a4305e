"""Computes a classifier's gaps between groups of people, from counts.

A client can send the counts of each group: their size does not depend on the
number of examples, and they can be added over clients. One of two or more
classes is the positive one.

  accuracy_parity      the share of correct predictions
  demographic_parity   the share of positive predictions
  equal_opportunity    the share of positive predictions among positive examples
  equalized_odds       the share of positive predictions among positive or
                       among negative examples, whichever has the larger gap

A gap is the largest minus the smallest share of a group: 0 is equal treatment
(Hardt, Price and Srebro, "Equality of Opportunity in Supervised Learning",
2016; Dwork et al., "Fairness through Awareness", 2012).

A gap's interval is valid whichever pair of groups has the largest difference:
each pair has Newcombe's interval ("Interval estimation for the difference
between independent proportions", 1998, method 10), with Bonferroni's correction
for the number of pairs.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tff_fair.metrics.intervals import CONFIDENCE, wilson_interval

_Counts = npt.NDArray[np.int64]
_Deviations = npt.NDArray[np.float64]
LEAST_EXAMPLES = 20


class GroupCounts(NamedTuple):
  """Counts of examples by group, int64[groups] each.

  Attributes:
    examples: All examples.
    hits: Examples that the model predicts correctly.
    positives: Examples of the positive class.
    predicted: Examples that are predicted to be of the positive class.
    true_positives: Examples that are in both `positives` and `predicted`.
  """

  examples: _Counts
  hits: _Counts
  positives: _Counts
  predicted: _Counts
  true_positives: _Counts


class GroupGap(NamedTuple):
  """The gap of a share between groups, and its interval.

  Attributes:
    value: The largest share minus the smallest.
    low: The lower end of the interval, 0 or more.
    high: The upper end of the interval.
    highest: The group with the largest share.
    lowest: The group with the smallest share.
  """

  value: float
  low: float
  high: float
  highest: int
  lowest: int


def count(
  labels: npt.ArrayLike,
  predicted: npt.ArrayLike,
  groups: npt.ArrayLike,
  num_groups: int,
  positive: int | None,
) -> GroupCounts:
  """Counts examples by group, from classes and groups, int[n] each.

  Group numbers are below `num_groups`; `positive` is the positive class, if
  there is one.
  """
  y, found = np.asarray(labels), np.asarray(predicted)

  def count_by_group(is_counted: npt.NDArray[np.bool_]) -> _Counts:
    chosen = np.asarray(groups)[is_counted]
    return np.bincount(chosen, minlength=num_groups)

  return GroupCounts(
    count_by_group(np.ones(y.shape, bool)),
    count_by_group(y == found),
    count_by_group(y == positive),
    count_by_group(found == positive),
    count_by_group((y == positive) & (found == positive)),
  )


def shares(counts: GroupCounts) -> dict[str, tuple[_Counts, _Counts]]:
  """Returns, by name, each share's numerator and denominator, int64[groups].

  The names are `accuracy`, `positive_rate`, `true_positive_rate` and
  `false_positive_rate`.
  """
  return {
    "accuracy": (counts.hits, counts.examples),
    "positive_rate": (counts.predicted, counts.examples),
    "true_positive_rate": (counts.true_positives, counts.positives),
    "false_positive_rate": (
      counts.predicted - counts.true_positives,
      counts.examples - counts.positives,
    ),
  }


_SHARES: Mapping[str, tuple[str, ...]] = {
  "accuracy_parity": ("accuracy",),
  "demographic_parity": ("positive_rate",),
  "equal_opportunity": ("true_positive_rate",),
  "equalized_odds": ("true_positive_rate", "false_positive_rate"),
}
NAMES = tuple(_SHARES)


def group_gap(
  name: str,
  counts: GroupCounts,
  least: int = LEAST_EXAMPLES,
  confidence: float = CONFIDENCE,
) -> GroupGap | None:
  """Returns the gap of a share between groups, with its interval.

  Args:
    name: One of `NAMES`.
    counts: The counts of at least two groups.
    least: A group is left out if its share's denominator is smaller than this.
    confidence: The confidence of the interval.

  Returns:
    The gap; None if fewer than two groups are left.
  """
  found: list[GroupGap] = []
  all_shares = shares(counts)
  for share in _SHARES[name]:
    part, whole = all_shares[share]
    kept = np.flatnonzero(whole >= max(least, 1))
    if kept.size < 2:
      return None
    pairs = math.comb(kept.size, 2) * len(_SHARES[name])
    rate = part[kept] / whole[kept]
    low, high = wilson_interval(rate, whole[kept], 1 - (1 - confidence) / pairs)
    below, above = np.square(rate - low), np.square(high - rate)
    differences = rate[:, None] - rate
    lows = differences - np.sqrt(below[:, None] + above)
    highs = differences + np.sqrt(above[:, None] + below)
    np.fill_diagonal(highs, 0)
    found.append(
      GroupGap(
        float(differences.max()),
        max(0.0, float(lows.max())),
        float(highs.max()),
        int(kept[rate.argmax()]),
        int(kept[rate.argmin()]),
      )
    )
  largest = max(found, key=lambda of_share: of_share.value)
  return largest._replace(
    low=max(of_share.low for of_share in found),
    high=max(of_share.high for of_share in found),
  )


def weighted_gap(
  name: str,
  counts: GroupCounts,
  weights: npt.NDArray[np.float64],
  shown: npt.NDArray[np.bool_],
) -> npt.NDArray[np.float64]:
  """Returns a gap over weighted clients, float64[...], without an interval.

  Counts are int64[K, G] for K clients and G groups, weights float64[..., K];
  `shown`, bool[G], marks the groups to compare. The gap is NaN if one of these
  groups has a share with denominator 0.
  """
  found, all_shares = [], shares(counts)
  with np.errstate(divide="ignore", invalid="ignore"):
    for share in _SHARES[name]:
      part, whole = (weights @ n[:, shown] for n in all_shares[share])
      rate = part / whole
      found.append(rate.max(-1) - rate.min(-1))
  return np.asarray(np.max(found, axis=0))


def has_enough_examples(
  name: str, counts: GroupCounts
) -> npt.NDArray[np.bool_]:
  """Returns whether each group has enough examples for a gap's shares."""
  all_shares = shares(counts)
  enough = [all_shares[s][1] >= LEAST_EXAMPLES for s in _SHARES[name]]
  return np.asarray(np.all(enough, axis=0))


def deviations(name: str, counts: Sequence[GroupCounts]) -> _Deviations:
  """Returns how far each client's gap is from the gap over all clients.

  Args:
    name: One of `NAMES`.
    counts: The counts of each client, for the same groups.

  Returns:
    float64[clients], |G - G_k|, where G is the gap over the sums of all counts,
    and G_k client k's gap. If G is undefined, or a client does not have
    examples of two groups to compare, its deviation is |accuracy_k - accuracy|.
  """
  total = GroupCounts(
    *(np.sum(column, 0) for column in zip(*counts, strict=True))
  )
  gap = group_gap(name, total, least=1)
  found = []
  for client_counts in counts:
    own_gap = group_gap(name, client_counts, least=1)
    if gap is not None and own_gap is not None:
      found.append(abs(gap.value - own_gap.value))
    else:
      found.append(abs(_accuracy(client_counts) - _accuracy(total)))
  return np.array(found, np.float64)


def _accuracy(counts: GroupCounts) -> float:
  return float(counts.hits.sum() / max(counts.examples.sum(), 1))
