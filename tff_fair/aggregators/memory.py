"""Remembers the updates of the last rounds, each client's latest one.

Memory grows with the rounds and the cohorts, never with the population.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from tff_fair.kernels import stacking


class RememberedCohort(NamedTuple):
  """The updates of one round that are still the latest of their clients.

  Attributes:
    client_id: int64[r].
    updates: float[r, d], one update per row.
  """

  client_id: Any
  updates: Any


Memory = tuple[RememberedCohort, ...]


def empty(num_rounds: int, row_spec: tf.TensorSpec) -> Memory:
  """Returns the memory before the first round, the youngest cohort first.

  Args:
    num_rounds: How many rounds are remembered.
    row_spec: Of an update as a vector, [d].
  """
  return tuple(
    RememberedCohort(
      stacking.no_rows(tf.TensorSpec([], tf.int64)), stacking.no_rows(row_spec)
    )
    for _ in range(num_rounds)
  )


def ids_and_ages(memory: Memory) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns whose the updates are, int64[r], and their ages, int32[r]."""
  ids = tf.concat([cohort.client_id for cohort in memory], 0)
  ages = tf.concat(
    [
      tf.fill([tf.size(cohort.client_id)], age)
      for age, cohort in enumerate(memory, start=1)
    ],
    0,
  )
  return ids, ages


def remember(memory: Memory, cohort: RememberedCohort) -> Memory:
  """Returns the memory after a round.

  Args:
    memory: The memory before it; its oldest cohort is forgotten.
    cohort: The round's cohort: its clients' older updates are forgotten too. An
      empty one leaves the memory as it is.
  """

  def still_latest(old: RememberedCohort) -> RememberedCohort:
    away = tf.reduce_all(
      tf.not_equal(
        old.client_id[:, tf.newaxis], cohort.client_id[tf.newaxis, :]
      ),
      axis=1,
    )
    return RememberedCohort(
      tf.boolean_mask(old.client_id, away), tf.boolean_mask(old.updates, away)
    )

  return tf.cond(
    tf.size(cohort.client_id) > 0,
    lambda: (cohort, *map(still_latest, memory[:-1])),
    lambda: tf.nest.map_structure(tf.identity, memory),
  )
