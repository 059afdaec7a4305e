"""Tests of FedNova's rule: what unequal numbers of steps distort."""

import numpy as np
import pytest

from tests.methods import cohorts, in_graph
from tff_fair.methods import fednova


def apply(updates, steps, num_examples=None):
  return in_graph.apply(
    fednova.FedNovaRule(),
    cohorts.make(updates, num_examples=num_examples, effective_steps=steps),
  )


@pytest.mark.parametrize("m", [1, 2, 7, 30])
def test_is_the_normalized_average(m):
  updates, _, n = cohorts.random(m, d=5, seed=m)
  steps = np.random.default_rng(m).integers(1, 200, size=m)
  output = apply(updates, steps, n)
  mean_gradient, mean_steps = np.zeros(5), 0.0
  for n_k, update, tau in zip(n, updates, steps, strict=True):
    mean_gradient += n_k / n.sum() * update / tau
    mean_steps += n_k / n.sum() * tau
  np.testing.assert_allclose(
    output.coefficients @ updates, mean_steps * mean_gradient, rtol=1e-10
  )
  assert output.measurements["effective_steps_mean"] == pytest.approx(
    mean_steps
  )


def test_the_unit_of_the_steps_does_not_matter():
  updates, _, n = cohorts.random(6, d=3)
  steps = np.arange(1, 7)
  c = apply(updates, steps, n).coefficients
  for unit in (1e-30, 1e30):
    other = apply(updates, steps * unit, n)
    np.testing.assert_allclose(other.coefficients, c, rtol=1e-12)


@pytest.mark.parametrize("steps", [[0, 0, 0], [0, 4, 2], [0, 1e30, 1e-30]])
def test_clients_without_steps_have_not_moved(steps):
  updates = np.sign(steps)[:, np.newaxis] * np.ones([3, 2])
  c = apply(updates, steps).coefficients
  assert np.all(np.isfinite(c))
  assert c[0] == 0
