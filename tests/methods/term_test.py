"""Tests of TERM's rule, with logarithms of sums from scipy."""

import numpy as np
import pytest
import scipy.special

from tests.methods import cohorts
from tff_fair.methods import term

_, LOSS, NUM_EXAMPLES = cohorts.random(6, d=1)
UPDATES = np.eye(6)


def coefficients(t, loss=LOSS, num_examples=NUM_EXAMPLES):
  return cohorts.coefficients(
    term.TermRule(t=t), cohorts.make(UPDATES[: len(loss)], loss, num_examples)
  )


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e6])
@pytest.mark.parametrize("t", [-1000, -1, 0, 0.1, 1, 1000])
def test_is_the_softmax_of_the_tilted_losses(t, scale):
  exponents = np.log(NUM_EXAMPLES) + t * LOSS * scale
  expected = np.exp(exponents - scipy.special.logsumexp(exponents))
  actual = coefficients(t, LOSS * scale)
  np.testing.assert_allclose(actual, expected, rtol=1e-6, atol=1e-300)
  assert actual.sum() == pytest.approx(1, abs=1e-14)


def test_the_largest_losses_share_by_their_examples():
  c = coefficients(1e5, [2.0, 1.0, 2.0], [1, 5, 3])
  np.testing.assert_allclose(c, [0.25, 0, 0.75], rtol=1e-9)
