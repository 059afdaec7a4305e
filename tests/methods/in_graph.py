"""Applies rules to cohorts in a graph, as processes do, or without one."""

import functools

import numpy as np
import tensorflow as tf

from tff_fair import types
from tff_fair.client_works import tracing


@functools.cache
def _traced(rule, known_names):
  """Returns `rule` as a graph function of a cohort of any size and a state."""
  ranks = {"gram": 2}
  dtypes = {
    "client_id": tf.int64,
    "remembered_id": tf.int64,
    "remembered_age": tf.int32,
  }
  known_specs = {
    name: tf.TensorSpec(
      [None] * ranks.get(name, 1), dtypes.get(name, tf.float64)
    )
    for name in known_names
  }
  state_specs = tf.nest.map_structure(
    lambda x: tf.TensorSpec([None] * x.shape.rank, x.dtype), rule.initialize()
  )

  def run(known, state):
    return rule.coefficients(types.Cohort(**known), state)

  # Traces without AutoGraph, as processes do. Calls of a concrete function take
  # a fifth of the time.
  return tracing.graph_function(run).get_concrete_function(
    known_specs, state_specs
  )


def _as_tensors(rule, cohort, state):
  """Returns the known fields of a cohort, and `state` or the initial one."""
  known = {name: x for name, x in cohort._asdict().items() if x is not None}
  state = rule.initialize() if state is None else state
  return tf.nest.map_structure(tf.convert_to_tensor, (known, state))


def apply(rule, cohort, state=None) -> types.RuleOutput:
  """Returns a round's output as arrays; without `state`, of the first round."""
  known, state = _as_tensors(rule, cohort, state)
  output = _traced(rule, tuple(known))(known, state)
  return tf.nest.map_structure(lambda x: x.numpy(), output)


def eagerly(rule, cohort, state=None) -> types.RuleOutput:
  """Does what `apply` does, but without a graph: tracing takes up to 1 s."""
  known, state = _as_tensors(rule, cohort, state)
  output = rule.coefficients(types.Cohort(**known), state)
  return tf.nest.map_structure(lambda x: x.numpy(), output)


def direction(rule, cohort, updates, state=None) -> np.ndarray:
  """Returns the direction of a round, [d]."""
  return apply(rule, cohort, state).coefficients @ np.asarray(updates)
