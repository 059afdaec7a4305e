"""Tests of GiFair's rule; `rule_contract_test` compares it with NumPy."""

import numpy as np
import pytest

from tests.methods import cohorts, in_graph
from tff_fair.methods import gifair

_, LOSS, NUM_EXAMPLES = cohorts.random(9, d=1, seed=4)


def apply(fraction, loss, num_examples=None):
  rule = gifair.GiFairRule(fraction=fraction)
  return in_graph.apply(rule, cohorts.of_losses(loss, num_examples))


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
