"""Whole numbers in given proportions."""

import numpy as np


def apportion(total: int, weights: np.ndarray) -> np.ndarray:
  """Divides a number in proportion to weights, by the largest remainders.

  Args:
    total: The number to divide, at least 0.
    weights: float[n], at least 0, their sum positive.

  Returns:
    int64[n] whose sum is `total`; equal remainders go to the first of them.
  """
  exact = total * (weights / weights.sum())
  whole = np.floor(exact).astype(np.int64)
  # Rounded, so that equal weights have equal remainders on every machine.
  by_remainder = np.argsort(-np.round(exact - whole, 9), kind="stable")
  whole[by_remainder[: total - whole.sum()]] += 1
  return whole
