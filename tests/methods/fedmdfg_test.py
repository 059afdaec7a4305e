"""Tests of FedMDFG's rule: the direction's length, zero updates, guidance."""

import numpy as np
import pytest
import tensorflow as tf

from tests import reference
from tests.methods import cohorts, in_graph
from tff_fair.methods import fedmdfg


def direction(updates, loss, **hparams):
  rule = fedmdfg.FedMdfgRule(**hparams)
  return in_graph.direction(rule, cohorts.make(updates, loss), updates)


def test_length_is_that_of_the_mean_of_updates_of_equal_norm():
  updates, loss, _ = cohorts.random(4, d=20, seed=2)
  norms = np.linalg.norm(updates, axis=1)
  mean = norms.mean() * (updates / norms[:, None]).mean(axis=0)
  for theta in (0.1, 89.0):
    found = np.linalg.norm(direction(updates, loss, theta=theta))
    assert found == pytest.approx(np.linalg.norm(mean), rel=1e-9)


def test_opposite_updates_have_no_common_direction():
  updates = np.array([[1.0, 2.0], [-3.0, -6.0]])
  np.testing.assert_array_equal(direction(updates, [1.0, 2.0]), [0, 0])


def test_zero_updates_are_left_out():
  updates, loss, _ = cohorts.random(4, d=10, seed=5)
  with_zero = np.concatenate([updates[:2], np.zeros([1, 10]), updates[2:]])
  found = direction(with_zero, np.insert(loss, 2, 1e6))
  np.testing.assert_allclose(
    found,
    reference.fedmdfg(cohorts.clients(cohorts.make(updates, loss), updates)),
    atol=1e-6,
  )


@pytest.mark.parametrize(
  ("loss", "theta", "is_guided"),
  [
    ([1.0, 1.0, 1.0], 0.001, False),
    ([0.0, 0.0, 0.0], 0.001, False),
    ([1.0, 0.0, 0.0], 54.0, True),  # The angle is acos(1 / sqrt(3)), 54.74.
    ([1.0, 0.0, 0.0], 55.0, False),
    ([1e300, 0.0, 0.0], 54.0, True),
    ([3e-308, 0.0, 0.0], 54.0, True),
    ([-1.0, -1.0, -1.0], 11.25, False),  # Opposite to (1, 1, 1): no plane.
  ],
)
def test_guidance_begins_at_an_angle(loss, theta, is_guided):
  h = fedmdfg.guidance(
    tf.constant(loss, tf.float64), tf.constant([True] * 3), theta
  ).numpy()
  assert np.any(h) == is_guided
  if is_guided:
    assert np.linalg.norm(h) == pytest.approx(1)
    assert h @ loss == pytest.approx(0, abs=1e-9 * max(loss))
    assert h.sum() < 0  # Away from equal losses, since the server subtracts h.
