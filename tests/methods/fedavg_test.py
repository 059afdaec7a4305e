"""Tests of FedAvg's rule."""

import numpy as np
import pytest

from tests.methods import cohorts
from tff_fair.methods import fedavg


def test_clients_weigh_by_their_examples():
  updates, loss, _ = cohorts.random(4, d=3)
  c = cohorts.coefficients(
    fedavg.FedAvgRule(), cohorts.make(updates, loss, [1, 2**24, 3, 0.5])
  )
  n = np.array([1, 2**24, 3, 0.5])
  np.testing.assert_allclose(c, n / n.sum(), rtol=1e-15)


@pytest.mark.parametrize("scale", [0, 1e30])
def test_losses_and_updates_do_not_matter(scale):
  cohort = cohorts.make(scale * np.eye(4), [scale, 1, 2, 3], [1, 2, 3, 4])
  c = cohorts.coefficients(fedavg.FedAvgRule(), cohort)
  np.testing.assert_allclose(c, [0.1, 0.2, 0.3, 0.4], rtol=1e-15)
