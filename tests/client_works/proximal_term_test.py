"""Tests of the gradient of the proximal term."""

import numpy as np
import pytest
import tensorflow as tf

from tff_fair.client_works import client_optimizer

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("mu", [0.0, 2.5, tf.constant(2.5)])
def test_the_gradient_of_the_term_is_added(mu):
  rng = np.random.default_rng(0)
  weights, centre = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 3, 4))
  gradients = [rng.normal(size=(3, 4)), None]
  found = client_optimizer.add_proximal_gradient(
    [None if g is None else tf.constant(g, tf.float32) for g in gradients],
    mu,
    [tf.constant(w, tf.float32) for w in weights],
    [tf.constant(c, tf.float32) for c in centre],
  )
  pulls = float(mu) * (weights - centre)
  np.testing.assert_allclose(found[0], gradients[0] + pulls[0], rtol=1e-5)
  # The loss does not depend on these; the term does.
  np.testing.assert_allclose(found[1], pulls[1], rtol=1e-5)
