"""Tests of FedAvg-n's rule."""

import numpy as np

from tests.methods import cohorts
from tff_fair.methods import fedavg_n

RULE = fedavg_n.FedAvgNRule()


def test_each_update_counts_by_its_direction_alone():
  updates, loss, n = cohorts.random(5, d=7)
  unit = updates / np.linalg.norm(updates, axis=1, keepdims=True)
  expected = n / n.sum() @ unit
  for scale in ([1, 1, 1, 1, 1], [1e30, 1, 1e-30, 1e-45, 3e38]):
    scaled = unit * np.array(scale)[:, np.newaxis]
    c = cohorts.coefficients(RULE, cohorts.make(scaled, loss, n))
    np.testing.assert_allclose(c @ scaled, expected, rtol=1e-12, atol=1e-15)


def test_a_zero_update_keeps_its_share():
  # The others do not take it over: p runs over all clients that count.
  updates = np.array([[3.0, 4.0], [0.0, 0.0], [0.0, 2.0]])
  cohort = cohorts.make(updates, num_examples=[1, 2, 1])
  c = cohorts.coefficients(RULE, cohort)
  np.testing.assert_allclose(c, [0.25 / 5, 0, 0.25 / 2], rtol=1e-15)


def test_streaming_weight_of_a_zero_update_is_zero():
  cohort = cohorts.make([[3.0, 4.0], [0.0, 0.0]])
  log_weight = np.asarray(RULE.log_weight(cohort))
  np.testing.assert_allclose(np.exp(log_weight), [0.1, 0], rtol=1e-14)
