"""Tests of DRFL's rule, against powers in exact arithmetic."""

import math

import numpy as np
import pytest

from tests.methods import cohorts, in_graph
from tff_fair.methods import drfl


def apply(q, loss, num_examples=None):
  cohort = cohorts.of_losses(loss, num_examples)
  return in_graph.apply(drfl.DrflRule(q=q), cohort).coefficients


def expected(q, loss, num_examples=None):
  n = [1] * len(loss) if num_examples is None else num_examples
  logs = [
    math.log(k) + (q * math.log(f) if f > 0 else (0 if q == 0 else -math.inf))
    for k, f in zip(n, loss, strict=True)
  ]
  if max(logs) == -math.inf:
    logs = [math.log(k) for k in n]
  powers = np.exp(np.array(logs) - max(logs))
  return powers / powers.sum()


@pytest.mark.parametrize("q", [0, 1e-3, 0.5, 1.0, 7.0, 300.0])
@pytest.mark.parametrize(
  "loss",
  [
    [0.7],
    [0.0],
    [0.0, 0.0, 0.0],
    [0.0, 1.0, 2.0],
    [-1.0, 2.0, 0.0],
    [1e-300, 0.0, 3e-300],
    [3e-308, 0.0],
    [1e300, 2e300, 1.0],
    [1.0, 1.0, 1.0],
    [0.3, 2.2, 0.9, 5.0],
  ],
  ids=str,
)
def test_coefficients_are_powers_of_losses(q, loss):
  n = np.arange(1, len(loss) + 1) ** 3
  for num_examples in (None, n):
    np.testing.assert_allclose(
      apply(q, loss, num_examples),
      expected(q, loss, num_examples),
      rtol=1e-9,
      atol=1e-12,
    )
