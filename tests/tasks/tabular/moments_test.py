"""Tests that clients' merged moments equal those of all rows together."""

import numpy as np
import pytest

from tasks.tabular import moments

NAN = float("nan")


def pooled(clients):
  """Returns count, mean and deviation of all clients' numbers, in float64."""
  values = np.concatenate(clients).astype(np.float64)
  values = values[~np.isnan(values)]
  if not len(values):
    return 0, 0.0, 0.0
  return len(values), values.mean(), values.std()


def federated(clients):
  sizes = np.array([len(values) for values in clients])
  return moments.of_federation(
    moments.of_clients(np.concatenate(clients), sizes)
  )


def noise(count, seed=0):
  return np.random.default_rng(seed).standard_normal(count)


CASES = {
  "plain": [noise(5), noise(80, 1), noise(1, 2)],
  "large offsets": [1e9 + noise(50), 1e9 + noise(7, 1)],
  "larger offsets, float32": [
    np.float32(1e9) + np.float32(64) * np.arange(9, dtype=np.float32),
    np.full(4, 1e9, np.float32),
  ],
  "clients far apart": [noise(50) - 1e6, noise(50, 1) + 1e6],
  "one client": [noise(30)],
  "one number": [np.array([3.5])],
  "some missing": [np.array([1, NAN, 3]), np.array([NAN]), np.array([-7.0])],
  "a client without rows": [np.zeros(0), noise(5), np.zeros(0)],
  "many clients": [noise(3, k) * 10.0**k for k in range(11)],
}


@pytest.mark.parametrize("name", CASES)
def test_federated_moments_are_those_of_pooled_rows(name):
  found = federated(CASES[name])
  num, mean, deviation = pooled(CASES[name])
  assert found.num == num
  size = max(np.nanmax(np.abs(values), initial=0) for values in CASES[name])
  np.testing.assert_allclose(found.mean, mean, rtol=0, atol=1e-15 * size)
  np.testing.assert_allclose(found.deviation, deviation, rtol=1e-9)


@pytest.mark.parametrize("value", [0.1, -1e9, 3e38, 1e-40])
def test_equal_numbers_deviate_by_nothing(value):
  clients = [np.full(n, value, np.float32) for n in (1, 3, 1000, 7)]
  found = federated(clients)
  assert found.mean == np.float32(value)
  assert found.deviation == 0


def test_no_numbers_or_no_clients():
  for found in (
    federated([np.array([NAN, NAN]), np.array([NAN])]),
    moments.of_federation(moments.Moments(*np.zeros([3, 0]))),
  ):
    assert (*found, found.deviation) == (0, 0, 0, 0)


def test_a_merge_is_that_of_both_numbers():
  first, second = noise(9), noise(4, 1) + 3
  parts = moments.of_clients(np.concatenate([first, second]), np.array([9, 4]))
  a, b = (moments.Moments(*(x[k] for x in parts)) for k in (0, 1))
  merged = moments.merge(a, b)
  num, mean, deviation = pooled([first, second])
  np.testing.assert_allclose(
    [merged.num, merged.mean, merged.deviation], [num, mean, deviation]
  )
