"""Tests of q-FedAvg's rule."""

import numpy as np
import pytest

from tests import reference
from tests.methods import cohorts
from tff_fair.methods import qfedavg

UPDATES, LOSS, _ = cohorts.random(5, d=7)


def coefficients(q, updates=UPDATES, loss=LOSS, learning_rate=0.1):
  return cohorts.coefficients(
    qfedavg.QFedAvgRule(q=q),
    cohorts.make(updates, loss, learning_rate=learning_rate),
  )


def assert_is_that_of_the_paper(q, loss, learning_rate, lipschitz=None):
  cohort = cohorts.make(UPDATES, loss, learning_rate=learning_rate)
  rule = qfedavg.QFedAvgRule(q=q, lipschitz=lipschitz)
  clients = cohorts.clients(cohort, UPDATES)
  np.testing.assert_allclose(
    cohorts.coefficients(rule, cohort) @ UPDATES,
    reference.qfedavg(clients, q, lipschitz),
    rtol=1e-12,
  )


@pytest.mark.parametrize("learning_rate", [0.0, 0.1])
@pytest.mark.parametrize("lipschitz", [0.1, 1, 30.0])
@pytest.mark.parametrize("q", [0.5, 2])
def test_another_constant_is_that_of_the_paper(q, lipschitz, learning_rate):
  assert_is_that_of_the_paper(q, LOSS, learning_rate, lipschitz)


@pytest.mark.parametrize("q", [0.1, 2.0])
def test_learning_rates_may_differ(q):
  assert_is_that_of_the_paper(q, LOSS, [0.1, 0.2, 0.05, 1.0, 0.3])


@pytest.mark.parametrize("scale", [1e-30, 1e-3, 1e6])
@pytest.mark.parametrize("q", [0.1, 1, 15])
def test_losses_of_any_scale(q, scale):
  # The powers in the paper's formula overflow. Here, they are divided by the
  # q-th power of the largest loss.
  relative = LOSS / LOSS.max()
  curvature = q * relative ** (q - 1) / (LOSS.max() * scale) * 10
  norms = (UPDATES**2).sum(axis=1)
  wanted = relative**q / (curvature * norms + relative**q).sum()
  actual = coefficients(q, loss=LOSS * scale)
  np.testing.assert_allclose(actual, wanted, rtol=1e-10)


def test_a_loss_of_zero_has_infinite_curvature_below_q_of_one():
  loss = np.array([0.0, 1.0, 2.0, 0.5, 3.0])
  np.testing.assert_array_equal(coefficients(0.5, loss=loss), np.zeros(5))
  # As a loss goes to 0, all coefficients go to 0.
  nearly = coefficients(0.5, loss=np.maximum(loss, 1e-200))
  np.testing.assert_allclose(nearly, np.zeros(5), atol=1e-30)


@pytest.mark.parametrize("q", [0.5, 1, 3])
def test_a_client_without_loss_and_update_does_not_matter(q):
  updates = UPDATES * [[0], [1], [1], [1], [1]]
  loss = np.where(np.arange(5) == 0, 0.0, LOSS)
  c = coefficients(q, updates, loss)
  assert c[0] == 0
  np.testing.assert_allclose(
    c[1:], coefficients(q, UPDATES[1:], LOSS[1:]), rtol=1e-12
  )


@pytest.mark.parametrize("q", [1, 2.5])
def test_a_loss_of_zero_from_q_of_one_on(q):
  loss = np.where(np.arange(5) == 2, 0.0, LOSS)
  assert_is_that_of_the_paper(q, loss, 0.1)


@pytest.mark.parametrize("q", [0, 0.5, 2])
def test_negative_losses_count_as_zero(q):
  loss = np.array([-1.0, 1.0, 2.0, -1e6, 3.0])
  zero = np.maximum(loss, 0)
  np.testing.assert_array_equal(
    coefficients(q, loss=loss), coefficients(q, loss=zero)
  )
  log_weights = [
    qfedavg.QFedAvgRule(q=q).log_weight(
      cohorts.make(UPDATES, loss_or_zero, learning_rate=0.1)
    )
    for loss_or_zero in (loss, zero)
  ]
  np.testing.assert_array_equal(*log_weights)


def test_no_learning_rate_and_no_updates_give_no_nan():
  # The learning rate of a schedule may reach zero.
  c = coefficients(1.0, np.zeros([5, 7]), learning_rate=0.0)
  assert np.all(np.isfinite(c))
