"""Rules that keep a number for each client of the population."""

import dataclasses

import tensorflow as tf

from tff_fair import declared, types


@dataclasses.dataclass(frozen=True, kw_only=True)
class PopulationRule(types.Rule):
  """A rule whose state has an entry for each client of the population."""

  num_clients: int = declared.required(
    "N, the size of the population, every client of which the method weighs; "
    "client ids are 0 to N - 1.",
    minimum=1,
  )

  def places(self, cohort: types.Cohort) -> tf.Tensor:
    """Returns where in the state the clients of a cohort are.

    Args:
      cohort: Of m clients.

    Returns:
      int64[m], their ids; computing them fails if one is out of range.
    """
    in_range = tf.debugging.Assert(
      tf.reduce_all(cohort.client_id >= 0)
      & tf.reduce_all(cohort.client_id < self.num_clients),
      [
        f"The method was built for num_clients={self.num_clients}, so that "
        f"client ids are 0 to {self.num_clients - 1}; the cohort has the ids",
        cohort.client_id,
      ],
    )
    with tf.control_dependencies([in_range] if in_range is not None else []):
      return tf.identity(cohort.client_id)
