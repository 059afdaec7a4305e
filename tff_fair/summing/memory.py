"""Remembers the latest update of each client of the last few rounds.

The memory's size depends on the numbers of rounds and of clients per round, not
on the number of all clients.
"""

from typing import NamedTuple

import tensorflow as tf

from tff_fair.kernels import gram as gram_lib, stacking


class RememberedCohort(NamedTuple):
  """A round's updates, except of clients that sent an update in a later round.

  For r updates of d weights, `client_id` is int64[r], `updates` float[r, d].
  """

  client_id: tf.Tensor
  updates: tf.Tensor


class Memory(NamedTuple):
  """The updates of the last rounds."""

  # One cohort for each round, the latest first.
  cohorts: tuple[RememberedCohort, ...]
  # float64[r, r], the inner products of all r updates, in the cohorts' order.
  # They are kept because they take longer to compute than the rest of a round.
  gram: tf.Tensor


def empty(num_rounds: int, row_spec: tf.TensorSpec) -> Memory:
  """Returns the memory before the first round."""
  return Memory(
    tuple(
      stacking.no_rows(RememberedCohort(stacking.CLIENT_ID_SPEC, row_spec))
      for _ in range(num_rounds)
    ),
    tf.compat.v1.placeholder_with_default(
      tf.zeros([0, 0], tf.float64), [None, None]
    ),
  )


def ids_and_ages(memory: Memory) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns r updates' client ids, int64[r], and ages in rounds, int32[r]."""
  ids = tf.concat([cohort.client_id for cohort in memory.cohorts], 0)
  ages = tf.concat(
    [
      tf.fill([tf.size(cohort.client_id)], age)
      for age, cohort in enumerate(memory.cohorts, start=1)
    ],
    0,
  )
  return ids, ages


def gram_with(memory: Memory, products: tf.Tensor) -> tf.Tensor:
  """Returns the Gram matrix of a cohort's updates and the remembered updates.

  `products`, float64[m, m + r], are inner products of the cohort's m updates
  with themselves, and then with the r remembered updates. The result,
  float64[m + r, m + r], is exactly symmetric.
  """
  across = products[:, tf.shape(products)[0] :]
  gram = tf.concat(
    [products, tf.concat([tf.transpose(across), memory.gram], 1)], 0
  )
  return gram_lib.symmetric(gram)


def remember(
  memory: Memory, cohort: RememberedCohort, gram: tf.Tensor
) -> Memory:
  """Adds a round's cohort to the memory, and drops the oldest cohort.

  Older updates of the new cohort's clients are dropped, too. An empty cohort
  does not change the memory. `gram` is the result of `gram_with`.
  """

  def next_memory() -> Memory:
    *younger, oldest = memory.cohorts
    latest = [
      stacking.are_missing(old.client_id, cohort.client_id) for old in younger
    ]
    kept = tf.concat(
      [
        tf.ones_like(cohort.client_id, tf.bool),
        *latest,
        tf.zeros_like(oldest.client_id, tf.bool),
      ],
      0,
    )
    return Memory(
      (
        cohort,
        *(
          RememberedCohort(
            tf.boolean_mask(old.client_id, mask),
            tf.boolean_mask(old.updates, mask),
          )
          for old, mask in zip(younger, latest, strict=True)
        ),
      ),
      tf.boolean_mask(tf.boolean_mask(gram, kept, axis=0), kept, axis=1),
    )

  return tf.cond(
    tf.size(cohort.client_id) > 0,
    next_memory,
    lambda: tf.nest.map_structure(tf.identity, memory),
  )
