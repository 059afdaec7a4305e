"""Which of some numbers belong to the upper of two groups.

A mixture of two normal distributions in one dimension, fitted by scikit-learn's
EM, as FedCorr (Xu et al., CVPR 2022) tells noisy clients from clean ones by
their dimensions, and wrong labels from right ones by their losses. Choices:

- The numbers are standardized first, so that neither their unit nor their size
  changes the groups. The least variance of a group is 1e-6 of theirs all.
- A number below the lower mean never belongs to the upper group, however wide
  that group is.
- Numbers that are all equal are one group, the lower one.
"""

import warnings

import numpy as np

_LEAST_VARIANCE = 1e-6  # After standardization.
_TOLERANCE = 1e-8  # Of the mean log-likelihood.
_MOST_STEPS = 1000


def is_upper(values: np.ndarray) -> np.ndarray:
  """Returns which numbers belong to the upper group.

  Args:
    values: float[n].

  Returns:
    bool[n]. A NaN belongs to the lower group; plus infinity to the upper one.
    Neither takes part in the fit.
  """
  numbers = np.asarray(values, np.float64)
  is_finite = np.isfinite(numbers)
  upper = np.isposinf(numbers)
  upper[is_finite] = _is_upper(numbers[is_finite])
  return upper


def _is_upper(numbers: np.ndarray) -> np.ndarray:
  if np.unique(numbers).size < 2:
    return np.zeros(len(numbers), bool)
  # Scaled down first: a sum of squares of 1e200 would overflow.
  scaled = numbers / np.abs(numbers).max()
  spread = scaled.std()
  if spread == 0:
    return np.zeros(len(numbers), bool)
  # Every run imports this module; few need scikit-learn, which takes long.
  from sklearn import exceptions, mixture  # noqa: PLC0415

  points = ((scaled - scaled.mean()) / spread)[:, np.newaxis]
  start = _two_means(points[:, 0])
  fitted = mixture.GaussianMixture(
    2,
    tol=_TOLERANCE,
    reg_covar=_LEAST_VARIANCE,
    max_iter=_MOST_STEPS,
    means_init=[[points[~start].mean()], [points[start].mean()]],
    weights_init=[1 - start.mean(), start.mean()],
    precisions_init=[
      [[1 / (points[group].var() + _LEAST_VARIANCE)]]
      for group in (~start, start)
    ],
    random_state=0,
  )
  with warnings.catch_warnings():
    warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
    fitted.fit(points)
  means = fitted.means_[:, 0]
  in_upper = fitted.predict(points) == np.argmax(means)
  return np.asarray(in_upper & (points[:, 0] > means.min()))


def _two_means(numbers: np.ndarray) -> np.ndarray:
  """Returns the upper of the two groups with the least sum of squares.

  In one dimension a cut of the sorted numbers is the best, so no chance is in
  it. Equal numbers stay together.

  Args:
    numbers: float64[n], not all equal.
  """
  levels, counts = np.unique(numbers, return_counts=True)
  number_below = np.cumsum(counts)[:-1]
  sum_below = np.cumsum(levels * counts)[:-1]
  total, n = (levels * counts).sum(), len(numbers)
  # To minimize the squares within is to maximize those between.
  between = sum_below**2 / number_below + (total - sum_below) ** 2 / (
    n - number_below
  )
  return np.asarray(numbers > levels[np.argmax(between)])
