"""The processes of which tests of parts compute rounds."""

import functools

import tensorflow_federated as tff

from tests import small_problem
from tff_fair import algorithms


@functools.cache
def process(name: str) -> tff.learning.templates.LearningProcess:
  """Returns the process of a method, on the small problem."""
  return algorithms.build(
    name,
    small_problem.functional_model(),
    client_optimizer=small_problem.optimizer(),
    batch_size=small_problem.BATCH_SIZE,
  )
