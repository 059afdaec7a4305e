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


@pytest.mark.parametrize(("t", "chosen"), [(1e5, np.argmax), (-1e5, np.argmin)])
def test_a_large_tilt_follows_one_client(t, chosen):
  np.testing.assert_array_equal(coefficients(t), np.eye(6)[chosen(LOSS)])


def test_the_largest_losses_share_by_their_examples():
  c = coefficients(1e5, [2.0, 1.0, 2.0], [1, 5, 3])
  np.testing.assert_allclose(c, [0.25, 0, 0.75], rtol=1e-9)


def test_adding_a_constant_to_all_losses_changes_nothing():
  np.testing.assert_allclose(
    coefficients(3.0, LOSS + 1024), coefficients(3.0), rtol=1e-10
  )


def test_is_the_gradient_of_the_tilted_loss():
  # 1/t log sum_k p_k exp(t f_k), by central differences in the losses.
  t, step = 1.7, 1e-6
  p = NUM_EXAMPLES / NUM_EXAMPLES.sum()
  gradient = [
    (
      scipy.special.logsumexp(t * (LOSS + step * e), b=p)
      - scipy.special.logsumexp(t * (LOSS - step * e), b=p)
    )
    / (2 * step * t)
    for e in np.eye(6)
  ]
  np.testing.assert_allclose(coefficients(t), gradient, atol=1e-8)
