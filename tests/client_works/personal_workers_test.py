"""Personal models over two workers: each client keeps its own."""

import numpy as np
import pytest

from tests import small_problem
from tff_fair import algorithms, runtime

COHORTS = ((12, 3, 5, 8, 31), (3, 31, 8), (2**40 + 1, 12))


def personal_models():
  """The table of personal models after some rounds."""
  process = algorithms.build_ditto(
    small_problem.functional_model(),
    client_optimizer=small_problem.optimizer(),
    batch_size=4,
  )
  state = process.initialize()
  for cohort in COHORTS:
    state = process.next(state, [small_problem.whole(k) for k in cohort]).state
  return state.client_work["personal"]


@pytest.fixture
def two_workers():
  """Two workers on this machine; afterwards the session's context again."""
  with runtime.start_worker() as first, runtime.start_worker() as second:
    yield [first.address, second.address]
    runtime.use_local()


def test_two_workers_give_the_same_models(two_workers):
  local = personal_models()
  runtime.use_workers(two_workers)
  apart = personal_models()
  np.testing.assert_array_equal(apart["client_id"], local["client_id"])
  np.testing.assert_allclose(apart["weights"], local["weights"], atol=1e-6)
