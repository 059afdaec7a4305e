"""FedFV's Algorithms 1 and 2 on vectors, in more than double precision.

The rule works on the Gram matrix alone; here nothing is known of it.
"""

import fractions
import math

import numpy as np


def project_away(g, targets):
  """Algorithm 2, lines 4 to 8."""
  for target in targets:
    if g @ target < 0:
      g = g - (g @ target) / (target @ target) * target
  return g


def mitigate_internal(updates, order, kept):
  """Algorithm 2; positions in `updates`."""
  projected = []
  for k, update in enumerate(updates):
    targets = [] if k in kept else [updates[j] for j in order if j != k]
    projected.append(project_away(update, targets))
  return sum(projected) / len(projected)


def keeps(loss, alpha):
  """The clients of the largest losses, counted in exact fractions."""
  last = len(loss) - 1
  share = 1 - fractions.Fraction(repr(alpha))
  first = len(loss) if alpha == 0 else math.ceil(last * share)
  return set(np.argsort(loss, kind="stable")[first:].tolist())


def rescaled(g, updates):
  """Algorithm 1, line 10; 0 where only rounding is left."""
  norm = np.sqrt(g @ g)
  largest = max(np.sqrt(u @ u) for u in updates)
  mean = sum(updates) / len(updates)
  if norm <= 1e-14 * largest:
    return np.zeros(len(g))
  return (g / norm * np.sqrt(mean @ mean)).astype(np.float64)


def in_precision(updates):
  return list(np.asarray(updates, np.longdouble))


def expected(updates, loss, alpha, order):
  """A direction without history; `order` is one of positions."""
  updates = in_precision(updates)
  g = mitigate_internal(updates, order, keeps(loss, alpha))
  return rescaled(g, updates)


def assert_same(actual, wanted, updates):
  tolerance = 1e-9 * np.max(np.linalg.norm(updates, axis=1))
  if len(wanted) == 2:
    # In a plane next to nothing may be left of the updates. What is known of a
    # vector by its inner products is then its length to half the digits.
    tolerance += 1e-4 * np.linalg.norm(wanted)
  np.testing.assert_allclose(actual, wanted, rtol=0, atol=tolerance)
