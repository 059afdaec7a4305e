"""Tests of VRed's and Semi-VRed's rules against the paper's lemmas."""

import numpy as np
import pytest

from tests.methods import cohorts
from tff_fair.methods import vred

RULES = {"vred": vred.VRedRule, "semi_vred": vred.SemiVRedRule}
each_rule = pytest.mark.parametrize("name", RULES)
UPDATES, LOSS, NUM_EXAMPLES = cohorts.random(7, d=4)


def coefficients(name, beta, loss=LOSS, n=None, updates=UPDATES):
  cohort = cohorts.make(updates[: len(loss)], loss, n)
  return cohorts.coefficients(RULES[name](beta=beta), cohort)


def beta_max(name, loss=LOSS, n=None):
  cohort = cohorts.make(UPDATES[: len(loss)], loss, n)
  return cohorts.measurements(RULES[name](), cohort)["beta_max"]


def lemma_1(loss, beta):
  """Returns the weights of Eq. 8, and the largest beta for weights >= 0."""
  n, mean = len(loss), loss.mean()
  w = 1 / n + 2 * beta * (loss - mean) / n
  return w, 1 / (2 * (mean - loss.min()))


def lemma_2(loss, beta):
  """Returns the weights of Eq. 12, and the largest beta for weights >= 0."""
  n, mean = len(loss), loss.mean()
  above = loss > mean
  total = (loss[above] - mean).sum()
  w = 1 / n - 2 * beta * total / n**2 * np.ones(n)
  w[above] += 2 * beta * (loss[above] - mean) / n
  return w, n / (2 * total)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e6])
@pytest.mark.parametrize("beta", [0, 0.1, 3.0])
@pytest.mark.parametrize(
  ("name", "lemma"), [("vred", lemma_1), ("semi_vred", lemma_2)]
)
def test_equal_clients_weigh_as_in_the_lemma(name, lemma, beta, scale):
  weights, bound = lemma(LOSS * scale, beta)
  np.testing.assert_allclose(
    coefficients(name, beta, LOSS * scale), weights, rtol=1e-10, atol=1e-14
  )
  assert beta_max(name, LOSS * scale) == pytest.approx(bound, rel=1e-10)


@pytest.mark.parametrize("n", [None, NUM_EXAMPLES])
@each_rule
def test_the_first_negative_coefficient_is_at_beta_max(name, n):
  bound = beta_max(name, n=n)
  below = coefficients(name, bound * (1 - 1e-9), n=n)
  above = coefficients(name, bound * (1 + 1e-9), n=n)
  assert below.min() > 0
  assert above.min() < 0
  # The first weights to turn negative belong, in VRed, to the least loss, and
  # in Semi-VRed, to all losses below the mean.
  p = np.ones(7) / 7 if n is None else n / n.sum()
  turned = np.arange(7) == LOSS.argmin() if name == "vred" else p @ LOSS > LOSS
  np.testing.assert_array_equal(above < 0, turned)


@each_rule
def test_is_the_gradient_of_the_penalized_loss(name):
  # Compares with central differences for f_k(theta) = f_k + <Delta_k, theta>.
  beta, step = 0.7, 1e-6
  p = NUM_EXAMPLES / NUM_EXAMPLES.sum()

  def objective(theta):
    loss = LOSS + UPDATES @ theta
    deviation = loss - p @ loss
    if name == "semi_vred":
      deviation = np.maximum(deviation, 0)
    return p @ loss + beta * p @ deviation**2

  gradient = [
    (objective(step * e) - objective(-step * e)) / (2 * step) for e in np.eye(4)
  ]
  actual = coefficients(name, beta, n=NUM_EXAMPLES) @ UPDATES
  np.testing.assert_allclose(actual, gradient, rtol=1e-7)


@each_rule
def test_equal_losses_are_fedavg_whatever_beta(name):
  loss = np.full(7, np.float32(0.1))
  np.testing.assert_allclose(
    coefficients(name, 1e6, loss, NUM_EXAMPLES),
    NUM_EXAMPLES / NUM_EXAMPLES.sum(),
    rtol=1e-9,
  )


@each_rule
def test_small_differences_of_large_losses_are_kept(name):
  # Above 2^20, float32 values are 1/8 apart, so these losses are exact.
  loss = np.array([0.0, 0.25, 0.5, 1.0, 0.125, 0.0, 2.0])
  np.testing.assert_allclose(
    coefficients(name, 1.5, loss + 2**20),
    coefficients(name, 1.5, loss),
    rtol=1e-8,
  )
