"""Tests of the local intrinsic dimension of prediction vectors."""

import math

import numpy as np
import pytest

from tff_fair.label_correction import dimension


def reference(points, k):
  """The formula, example by example, in Python's floats."""
  found = []
  for i, x in enumerate(points):
    radii = sorted(
      math.dist(x, other) for j, other in enumerate(points) if j != i
    )[:k]
    if radii[0] == 0:
      found.append(0.0)
      continue
    mean = sum(math.log(r / radii[-1]) for r in radii) / len(radii)
    found.append(-1 / mean)
  return np.array(found)


def distributions(n, classes=4, seed=0):
  rng = np.random.default_rng(seed)
  return rng.dirichlet(np.ones(classes), n).astype(np.float32)


@pytest.mark.parametrize(("n", "k"), [(40, 20), (300, 20), (9, 5), (7, 20)])
def test_dimensions_are_those_of_the_formula(n, k):
  points = distributions(n)
  found = dimension.local_dimensions(points, k)
  expected = reference(points.astype(np.float64), min(k, n - 1))
  np.testing.assert_allclose(found, expected, rtol=1e-12)
  assert dimension.mean_dimension(points, k) == pytest.approx(expected.mean())


def test_points_on_a_line_have_one_dimension_and_in_a_cube_three():
  rng = np.random.default_rng(1)
  line = np.outer(rng.random(2000), [0.3, 0.4, 0.5])
  assert dimension.mean_dimension(line) == pytest.approx(1, rel=0.15)
  assert dimension.mean_dimension(rng.random([2000, 3])) == pytest.approx(
    3, rel=0.15
  )


def test_duplicates_have_dimension_zero():
  points = np.concatenate([distributions(30), distributions(30)[:2]])
  found = dimension.local_dimensions(points)
  np.testing.assert_array_equal(found == 0, reference(points, 20) == 0)
  assert list(np.flatnonzero(found == 0)) == [0, 1, 30, 31]
  same = np.full([25, 3], 1 / 3)
  np.testing.assert_array_equal(dimension.local_dimensions(same), 0)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_few_points_have_no_estimate(n):
  assert np.isnan(dimension.local_dimensions(distributions(n))).all()
  assert math.isnan(dimension.mean_dimension(distributions(n)))


def test_equal_distances_have_no_estimate_and_the_mean_leaves_them_out():
  corners = np.eye(4)  # All sqrt(2) apart.
  assert np.isnan(dimension.local_dimensions(corners)).all()
  points = np.concatenate([corners[:3], [[0.9, 0.05, 0.05, 0]]])
  found = dimension.local_dimensions(points, 2)
  assert dimension.mean_dimension(points, 2) == pytest.approx(np.nanmean(found))


def test_predictions_that_are_not_finite_have_no_estimate():
  points = distributions(30)
  points[3, 1] = np.nan
  assert math.isnan(dimension.mean_dimension(points))
