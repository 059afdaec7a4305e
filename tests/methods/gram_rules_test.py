"""Tests of Gram rules against TorchJD's weights, and of their properties."""

import numpy as np
import pytest

from tests.methods import cohorts, in_graph
from tests.methods.settings import RULE_CLASSES

UPDATES = {
  "conflict": [[3, 0, 1], [-2, 1, 0], [0, 1, 2]],
  "agreement": [[1, 2], [2, 1]],
  "dependent": [[2, 1], [-1, 2], [1, 3]],
  "equal": [[1, 0, 2], [1, 0, 2], [-1, 3, 0]],
  "opposite": [[1, 2, 0], [-2, -4, 0], [1, 0, 1]],
  "a zero update": [[1, 2, 0], [0, 0, 0], [-1, 1, 1]],
}
# Weights by TorchJD 0.18, in the order of the updates. In the cases left out,
# its solver for Nash-MTL fails, or no solution exists.
TORCHJD = {
  "upgrad": {
    "conflict": [0.5333333333, 0.7333333333, 0.3333333333],
    "agreement": [0.5, 0.5],
    "dependent": [0.3333333333, 0.3333333333, 0.3333333333],
    "equal": [0.3666666667, 0.3666666667, 0.4],
    "opposite": [1.0, 0.5333333333, 0.3333333333],
    "a zero update": [0.3333333333, 0.3333333333, 0.3333333333],
  },
  "imtl_g": {
    "conflict": [0.5638697904, 0.7819348952, -0.3458046857],
    "agreement": [0.5, 0.5],
    "dependent": [0.25, 0.25, 0.5],
    "equal": [0.2928932188, 0.2928932188, 0.4142135624],
    "opposite": [-0.08876522933, 0.1775304587, 0.9112347707],
    "a zero update": [0.4364916731, 0.0, 0.5635083269],
  },
  "nash_mtl": {
    "agreement": [0.333333334, 0.333333334],
    "dependent": [0.365148372, 0.365148372, 0.182574186],
    "equal": [0.334286466, 0.334286466, 0.351418386],
  },
  "aligned_mtl": {
    "conflict": [0.1868984405, 0.2529278351, -0.03230999821],
    "agreement": [0.1666666667, 0.1666666667],
    "dependent": [0.1283000598, 0.1283000598, 0.2566001196],
    "equal": [0.3268552872, 0.3268552872, 0.3424946741],
    "opposite": [-0.02862712473, 0.05725424947, 0.3415260812],
    "a zero update": [0.2090337234, 0.0, 0.2818467491],
  },
}
CASES = [(name, case) for name, of in TORCHJD.items() for case in of]


def apply(name, updates):
  return in_graph.apply(RULE_CLASSES[name](), cohorts.make(updates))


@pytest.mark.parametrize(("name", "case"), CASES)
def test_coefficients_are_those_of_torchjd(name, case):
  updates = np.array(UPDATES[case], float)
  c, expected = apply(name, updates).coefficients, TORCHJD[name][case]
  if name == "upgrad":  # Coefficients are not always unique.
    np.testing.assert_allclose(c @ updates, expected @ updates, atol=1e-6)
  else:
    np.testing.assert_allclose(c, expected, atol=1e-8)


def test_imtl_g_is_as_steep_along_each_update():
  updates, _, _ = cohorts.random(5, d=12)
  output = apply("imtl_g", updates)
  slopes = updates @ (output.coefficients @ updates)
  slopes /= np.linalg.norm(updates, axis=1)
  np.testing.assert_allclose(slopes, slopes[0], rtol=1e-9)
  assert output.measurements["relative_residual"] < 1e-12
  # No vector is at the same angle to three directions in a plane.
  output = apply("imtl_g", UPDATES["dependent"])
  assert output.measurements["relative_residual"] > 0.01
  opposite = apply("imtl_g", [[1.0, 2.0], [-1.0, -2.0]])
  np.testing.assert_array_equal(opposite.coefficients, [0, 0])


def test_aligned_mtl_is_the_mean_of_updates_of_one_singular_value():
  updates, _, _ = cohorts.random(4, d=9)
  left, values, right = np.linalg.svd(updates, full_matrices=False)
  aligned = values.min() * left @ right
  c = apply("aligned_mtl", updates).coefficients
  np.testing.assert_allclose(c @ updates, aligned.mean(0), atol=1e-12)


def test_a_bargain_maximizes_the_product_of_slopes():
  updates, _, _ = cohorts.random(4, d=9)
  best = apply("nash_mtl", updates).coefficients @ updates
  assert np.linalg.norm(best) == pytest.approx(2)
  rng = np.random.default_rng(0)
  for step in rng.normal(size=(20, 9)) * 0.05:
    other = 2 * (best + step) / np.linalg.norm(best + step)
    assert np.sum(np.log(updates @ other)) < np.sum(np.log(updates @ best))
