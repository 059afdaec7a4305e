"""Tests of GiFair's rule, with ranks from scipy."""

import numpy as np
import pytest
import scipy.stats

from tests.methods import cohorts, in_graph
from tff_fair.methods import gifair

_, LOSS, NUM_EXAMPLES = cohorts.random(9, d=1, seed=4)


def apply(fraction, loss, num_examples=None):
  rule = gifair.GiFairRule(fraction=fraction)
  return in_graph.apply(rule, cohorts.of_losses(loss, num_examples))


def expected(fraction, loss, num_examples=None):
  """Average ranks 1 to m, ties included, tell who is above and who below."""
  m = len(loss)
  n = np.ones(m) if num_examples is None else np.asarray(num_examples)
  score = 2 * scipy.stats.rankdata(loss) - (m + 1)
  return n / n.sum() + fraction * min(n) / n.sum() / max(m - 1, 1) * score


HARD = {
  "one client": [0.7],
  "one client without loss": [0.0],
  "identical clients": [0.7, 0.7],
  "two clients": [0.7, 0.2],
  "no loss": [0.0, 0.0, 0.0],
  "ties": [1.0, 2.0, 1.0, 3.0, 2.0, 1.0],
  "tiny losses": [1e-30, 3e-30, 2e-30, 0.0],
  "least losses of float32": [1.4e-45, 2.8e-45, 0.0],
  "huge losses": [1e6, 1e30, 1e6, 3e38],
  "tiny and huge losses": [1e-30, 1e6, 1.0, 0.0],
  "negative losses": [-1.0, 2.0, -3.0, 0.0],
  "nearly ties": [1.0, np.nextafter(1.0, 2.0), 1.0],
}


@pytest.mark.parametrize("fraction", [0, 1e-12, 0.5, 0.999])
@pytest.mark.parametrize("case", HARD)
def test_hard_losses(case, fraction):
  loss = HARD[case]
  n = np.arange(1, len(loss) + 1) ** 3
  for num_examples in (None, n):
    np.testing.assert_allclose(
      apply(fraction, loss, num_examples).coefficients,
      expected(fraction, loss, num_examples),
      rtol=1e-12,
      atol=1e-15,
    )


def test_nearly_all_of_the_fraction_leaves_nearly_nothing():
  # The client of least loss has the least weight as well.
  n = np.where(np.arange(9) == LOSS.argmin(), 1, 10)
  c = apply(1 - 1e-9, LOSS, n).coefficients
  assert 0 < c[LOSS.argmin()] < 1e-9


def test_the_strength_is_reported():
  reported = apply(0.5, LOSS, NUM_EXAMPLES).measurements["rank_strength"]
  least = min(NUM_EXAMPLES) / sum(NUM_EXAMPLES)
  assert reported == pytest.approx(0.5 * least / 8)
  assert apply(0.5, [1.0]).measurements["rank_strength"] == 0
