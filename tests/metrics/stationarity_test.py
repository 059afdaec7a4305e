"""Tests of Pareto stationarity against least squares on the updates."""

import numpy as np
import pytest

from tests import hulls
from tests.refusals import rejected
from tff_fair import metrics


def random_updates(seed):
  """Returns up to 200 updates; some agree, conflict, repeat or are zero."""
  rng = np.random.default_rng(seed)
  m, d = int(rng.integers(1, 201)), int(rng.choice([1, 3, 10, 50, 200, 1000]))
  updates = rng.normal(size=(m, d)) + rng.choice([0.0, 0.1, 1.0])
  updates *= 10.0 ** rng.uniform(-3, 3)
  if seed % 5 == 0:
    updates[rng.integers(0, m, max(1, m // 3))] = updates[0]
  if seed % 4 == 0:
    updates *= 10.0 ** rng.uniform(-2, 2, size=(m, 1))
  if seed % 7 == 0:
    updates[0] = 0
  return updates


@pytest.mark.parametrize(
  "seeds",
  [
    range(60),
    pytest.param(range(60, 1000), marks=pytest.mark.long),
  ],
)
def test_agrees_with_a_program_on_the_updates(seeds):
  for seed in seeds:
    updates = random_updates(seed)
    found = metrics.pareto_stationarity(updates @ updates.T)
    least = np.linalg.norm(hulls.least_norm(updates) @ updates)
    mean = np.linalg.norm(updates, axis=1).mean()
    assert found * mean == pytest.approx(least, abs=1e-9 * mean), seed


@pytest.mark.parametrize(
  ("updates", "expected"),
  [
    ([[3.0, 4.0]], 1),
    ([[1.0, 2.0]] * 5, 1),
    ([[1.0, 0.0], [0.0, 1.0]], np.sqrt(0.5)),
    ([[1.0, 0.0], [-3.0, 0.0]], 0),
    ([[1.0, 0.0], [0.0, 0.0]], 0),
    ([[0.0, 0.0], [0.0, 0.0]], 0),
    # The shorter update alone is the nearest point to zero.
    ([[1.0, 0.0], [3.0, 0.0]], 0.5),
  ],
)
@pytest.mark.parametrize("scale", [1e-140, 1.0, 1e140])
def test_known_values(updates, expected, scale):
  updates = scale * np.asarray(updates)
  found = metrics.pareto_stationarity(updates @ updates.T)
  assert isinstance(found, float)
  assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
  "gram",
  [
    [],
    [1.0],
    [[1.0, 2.0]],
    np.zeros([0, 0]),
    [[1.0, np.nan], [np.nan, 1.0]],
    [[np.inf]],
    [[1.0, 0.0], [0.0, -1.0]],
    [[1.0, 0.5], [0.2, 1.0]],
  ],
)
def test_what_is_no_gram_matrix_is_refused(gram):
  with rejected("gram"):
    metrics.pareto_stationarity(gram)
