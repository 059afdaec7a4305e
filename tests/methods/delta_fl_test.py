"""Tests of Delta-FL's rule, against quantiles in exact fractions."""

import fractions

import numpy as np
import pytest

from tests.cases import one_of_each
from tests.methods import cohorts, in_graph
from tff_fair.methods import delta_fl

_, LOSS, NUM_EXAMPLES = cohorts.random(10, d=1, seed=3)


def apply(alpha, loss, num_examples=None):
  rule = delta_fl.DeltaFlRule(alpha=alpha)
  return in_graph.eagerly(rule, cohorts.of_losses(loss, num_examples))


def expected(alpha, loss, num_examples=None):
  """Returns the coefficients; the quantile is found in exact fractions."""
  m = len(loss)
  n = [1] * m if num_examples is None else [int(k) for k in num_examples]
  level = 1 - fractions.Fraction(repr(alpha))
  cumulative = fractions.Fraction(0)
  for value in sorted(set(loss)):
    cumulative += fractions.Fraction(
      sum(k for k, f in zip(n, loss, strict=True) if f == value), sum(n)
    )
    if cumulative >= level:
      break
  kept = [k if f >= value else 0 for k, f in zip(n, loss, strict=True)]
  return np.array(kept) / sum(kept)


def check(alpha, loss, num_examples=None):
  output = apply(alpha, loss, num_examples)
  wanted = expected(alpha, loss, num_examples)
  np.testing.assert_allclose(output.coefficients, wanted, rtol=1e-12)
  assert output.measurements["num_clients_kept"] == np.count_nonzero(wanted)


@pytest.mark.parametrize(
  "alpha", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
)
def test_levels_that_are_reached_exactly(alpha):
  # In floats, sums of tenths end just below or just above the level.
  check(alpha, LOSS)
  assert apply(alpha, LOSS).measurements["num_clients_kept"] == min(
    round(10 * alpha) + 1, 10
  )


@pytest.mark.parametrize("m", one_of_each([7, 3, 6, 49]))
def test_levels_next_to_a_cumulative_weight(m):
  loss = np.random.default_rng(m).permutation(m) + 0.5
  for k in range(1, m):
    # The quantile is the loss that exactly k clients exceed.
    assert apply(k / m, loss).measurements["num_clients_kept"] == k + 1
    check(k / m - 1e-6, loss)
    check(k / m + 1e-6, loss)


@pytest.mark.parametrize("alpha", [1e-6, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e6])
def test_unequal_clients(alpha, scale):
  check(alpha, LOSS * scale, NUM_EXAMPLES)


def test_random_cohorts():
  rng = np.random.default_rng(5)
  for _ in range(100):
    m = rng.integers(1, 31)
    alpha = float(np.round(rng.uniform(1e-3, 1), 4))
    # With few different losses, there are many ties.
    check(alpha, rng.integers(0, 6, size=m) / 4, rng.integers(1, 40, size=m))


@pytest.mark.parametrize("alpha", [1e-300, 1e-12, 1e-7])
def test_a_tiny_alpha_keeps_the_largest_loss(alpha):
  output = apply(alpha, LOSS, NUM_EXAMPLES)
  np.testing.assert_array_equal(output.coefficients, np.eye(10)[LOSS.argmax()])
  assert output.measurements["num_clients_kept"] == 1


@pytest.mark.parametrize("alpha", [1e-12, 0.3, 0.5, 1.0])
@pytest.mark.parametrize(
  "loss",
  [
    *([value] * m for value in (0.0, 1e-30, 1e6, -3.0) for m in (1, 4)),
    [0.5, 2.0, 1.0, 2.0],
    # Neighboring floats are not ties.
    [1.0, np.nextafter(1.0, 2.0), 1.0],
  ],
  ids=str,
)
def test_ties(alpha, loss):
  check(alpha, loss, [1, 3, 7, 5][: len(loss)])


def test_one_client_with_nearly_all_examples():
  # The other two clients have a share of 1e-6 of the examples.
  n = [10**7, 4, 6]
  check(1e-6, [1.0, 2.0, 3.0], n)
  check(5e-7, [1.0, 2.0, 3.0], n)
  check(1e-6, [3.0, 2.0, 1.0], n)


@pytest.mark.parametrize("alpha", [1e-14, 1e-12, 0.99e-10, 1.01e-10, 1e-8])
@pytest.mark.parametrize("small", [1, 7])
def test_a_share_far_below_one_is_told_from_another(small, alpha):
  # 1 - alpha and the cumulative weight are both almost 1.
  for loss in ([1.0, 2.0], [2.0, 1.0], [1.0, 1.0]):
    check(alpha, loss, [10**10, small])
  check(alpha, [1.0, 3.0, 2.0, 4.0], [10**10, small, 1, small])


@pytest.mark.parametrize("m", [2, 30, 1000])
def test_a_tiny_share_is_reached_exactly(m):
  # The client of least loss has nearly all examples; all others have one each.
  loss, n = np.arange(m) + 1.0, [10**9, *[1] * (m - 1)]
  for k in {1, m // 2, m - 1}:
    alpha = k / sum(n)
    kept = apply(alpha, loss, n).measurements["num_clients_kept"]
    assert kept == k + 1
    kept = apply(alpha * (1 - 1e-11), loss, n).measurements["num_clients_kept"]
    assert kept == k
