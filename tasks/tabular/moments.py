"""Mean and standard deviation of a federation's numbers without pooled rows.

Each client reports the count of its numbers, their mean, and the sum of squares
around that mean. Two reports can be merged into one, in any order (Chan, Golub
and LeVeque, "Algorithms for Computing the Sample Variance", 1983):

  n = n_a + n_b,  d = mean_b - mean_a,
  mean = mean_a + d n_b / n,  M2 = M2_a + M2_b + d^2 n_a n_b / n

So a federation needs no pooled rows: `merge` fits `tff.federated_aggregate`.
Sums of squares around zero could simply be added, but would lose all digits of
numbers whose differences are small relative to their size.
"""

from typing import NamedTuple

import numpy as np


class Moments(NamedTuple):
  """Moments of one or more clients' numbers."""

  # Count of the numbers that are not missing, float64[...].
  num: np.ndarray
  mean: np.ndarray  # Mean of the numbers, float64[...]; 0 without numbers.
  m2: np.ndarray  # The sum of squares around the mean, float64[...].

  @property
  def deviation(self) -> np.ndarray:
    """The standard deviation, float64[...]; 0 without numbers."""
    return np.sqrt(self.m2 / np.maximum(self.num, 1))


def of_clients(values: np.ndarray, sizes: np.ndarray) -> Moments:
  """Returns each client's moments, float64[clients].

  `values`, float[rows] with NaN if missing, hold the numbers of one client
  after the other; `sizes` are the clients' numbers of rows.
  """
  client = np.repeat(np.arange(len(sizes)), sizes)
  is_there = ~np.isnan(values)
  client, values = client[is_there], values[is_there].astype(np.float64)

  def sums(numbers: np.ndarray) -> np.ndarray:
    return np.bincount(client, numbers, minlength=len(sizes))

  count = np.bincount(client, minlength=len(sizes)).astype(np.float64)
  at_least_one = np.maximum(count, 1)
  first = sums(values) / at_least_one
  centered = values - first[client]
  # A second pass corrects the rounding errors of the first.
  error = sums(centered)
  mean = first + error / at_least_one
  m2 = sums(centered**2) - error**2 / at_least_one
  return Moments(count, mean, np.maximum(m2, 0))


def merge(a: Moments, b: Moments) -> Moments:
  """Returns the moments of all numbers that `a` and `b` summarize."""
  count = a.num + b.num
  at_least_one = np.maximum(count, 1)
  difference = b.mean - a.mean
  share = b.num / at_least_one
  mean = np.where(a.num > 0, a.mean + difference * share, b.mean)
  m2 = a.m2 + b.m2 + difference**2 * a.num * share
  return Moments(count, mean, m2)


def of_federation(clients: Moments) -> Moments:
  """Returns the moments, float64[], of all clients, merged in pairs."""
  while len(clients.num) > 1:
    half = -(-len(clients.num) // 2)
    # If the number of clients is odd, the middle one has no partner.
    lacking = 2 * half - len(clients.num)
    second = Moments(*(np.pad(x[half:], (0, lacking)) for x in clients))
    clients = merge(Moments(*(x[:half] for x in clients)), second)
  return Moments(*(x.sum() for x in clients))
