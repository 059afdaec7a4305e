"""Runs rounds of the small problem in parts, and the same rounds as a whole."""

import numpy as np
import tensorflow as tf

from tests import small_problem
from tff_fair import runtime

# AFL needs client ids below the size of the population.
POPULATION = 40
COHORT = (12, 3, 8, 5, 31, 17, 2)


def client(client_id, *, scale=1.0, size=8):
  """Returns a client's data; with the default size, two minibatches."""
  rng = np.random.default_rng(client_id)
  x = scale * rng.normal(size=(size, small_problem.NUM_FEATURES))
  y = rng.integers(small_problem.NUM_CLASSES, size=size)
  arrays = x.astype(np.float32), y.astype(np.int32)
  return small_problem.whole(client_id, arrays)


def diverging(client_id):
  """Returns a client whose loss is finite but whose update is not.

  After one step, the next one overflows. The first minibatch may cause no step,
  if the model predicts it correctly.
  """
  x = np.full((12, small_problem.NUM_FEATURES), 1e30, np.float32)
  y = np.repeat(np.array([0, 1, 0], np.int32), 4)
  return small_problem.whole(client_id, (x, y))


def hostile():
  """Returns clients whose data are unusable, which excludes them."""
  return [
    client(20, scale=np.nan),
    client(21, scale=np.inf),
    client(22).take(0),
  ]


def build(name, **options):
  return small_problem.process(name, num_clients=POPULATION, **options)


def run(process, state, clients, size):
  """Runs a round in parts of `size` clients; 0 means a round as a whole."""
  with runtime.in_parts_of(size):
    return process.next(state, clients)


def run_both(process, state, clients, size=3):
  """Checks that a round in parts equals the whole round; returns its output."""
  parts = run(process, state, clients, size)
  assert_close(parts, run(process, state, clients, 0))
  return parts


def assert_close(actual, expected):
  tf.nest.assert_same_structure(actual, expected, check_types=True)
  for a, b in zip(leaves(actual), leaves(expected), strict=True):
    assert a.dtype == b.dtype
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def assert_equal(actual, expected):
  for a, b in zip(leaves(actual), leaves(expected), strict=True):
    np.testing.assert_array_equal(a, b)


def leaves(value):
  return [np.asarray(leaf) for leaf in tf.nest.flatten(value)]
