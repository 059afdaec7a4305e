"""Applies a rule to a collected cohort, and says what the round reports."""

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tff_fair import types
from tff_fair.aggregators import scalars


class RoundUpdate(NamedTuple):
  """What a round's aggregation hands to the finalizer.

  Attributes:
    update: The direction d, a structure like a client's update.
    num_clients: int32[], the clients that counted. Where there is none, d is
      zero and the finalizer leaves weights and state alone.
  """

  update: Any
  num_clients: Any


def apply_rule(
  reader: scalars.ScalarReader,
  rows: scalars.ScalarRows,
  state: Any,
  gram: tf.Tensor | None = None,
) -> types.RuleOutput:
  """Applies a rule to a cohort.

  Args:
    reader: Knows the rule and the meaning of the rows.
    rows: The scalars of the cohort, in any order; may be empty.
    state: The rule's state.
    gram: float64[m, m] in the order of `rows`, if the rule needs it.

  Returns:
    The rule's output, its coefficients in the order of `rows`. The measurements
    are those that every method reports and those of the rule. An empty cohort
    leaves the state as it is.
  """

  def apply() -> types.RuleOutput:
    order = tf.argsort(rows.client_id, stable=True)
    cohort = reader.unordered_cohort(
      rows._replace(
        client_id=tf.gather(rows.client_id, order),
        columns=tf.gather(rows.columns, order),
      )
    )
    cohort = cohort._replace(
      weight=cohort.weight / tf.reduce_sum(cohort.weight)
    )
    if gram is not None:
      ordered = tf.gather(tf.gather(gram, order, axis=0), order, axis=1)
      cohort = cohort._replace(
        gram=ordered, squared_norm=tf.linalg.diag_part(ordered)
      )
    output = reader.rule.coefficients(cohort, state)
    measurements = _cohort_measurements(cohort, output.coefficients)
    measurements.update(
      (name, _reported(value)) for name, value in output.measurements.items()
    )
    arrival = tf.math.invert_permutation(order)
    return types.RuleOutput(
      tf.gather(output.coefficients, arrival), output.state, measurements
    )

  return _unless_empty(tf.size(rows.client_id) > 0, apply, state)


def round_output(
  rows: scalars.ScalarRows, output: types.RuleOutput, direction: Any
) -> tuple[Any, RoundUpdate, collections.OrderedDict[str, tf.Tensor]]:
  """Returns the state, the result and the measurements of an aggregation.

  Args:
    rows: The scalars of the cohort.
    output: What `apply_rule` returned for them.
    direction: d, a structure of tensors.
  """
  num_clients = tf.size(rows.client_id)
  measurements = collections.OrderedDict(
    num_clients=num_clients,
    num_clients_excluded=rows.num_excluded,
    direction_norm=_reported(tf.sqrt(scalars.squared_norm(direction))),
  )
  measurements.update(output.measurements)
  return output.state, RoundUpdate(direction, num_clients), measurements


def _unless_empty(
  any_client: tf.Tensor, apply: Callable[[], types.RuleOutput], state: Any
) -> types.RuleOutput:
  """Returns `apply()`; without clients no coefficients and the same state."""
  reported: list[tuple[str, tf.DType]] = []

  def applied() -> tuple[Any, Any, Any]:
    output = apply()
    reported.extend((n, v.dtype) for n, v in output.measurements.items())
    return (
      output.coefficients,
      output.state,
      tuple(output.measurements.values()),
    )

  def unchanged() -> tuple[Any, Any, Any]:
    return (
      tf.zeros([0], tf.float64),
      tf.nest.map_structure(tf.identity, state),
      tuple(tf.zeros([], dtype) for _, dtype in reported),
    )

  # The first branch is traced first: it tells what there is to report.
  coefficients, new_state, values = tf.cond(any_client, applied, unchanged)
  names = [name for name, _ in reported]
  return types.RuleOutput(
    coefficients,
    new_state,
    collections.OrderedDict(zip(names, values, strict=True)),
  )


def _cohort_measurements(
  cohort: types.Cohort, coefficients: tf.Tensor
) -> collections.OrderedDict[str, tf.Tensor]:
  """Returns what every method reports of a cohort."""
  measurements = collections.OrderedDict(
    coefficient_min=_reported(tf.reduce_min(coefficients)),
    coefficient_max=_reported(tf.reduce_max(coefficients)),
    coefficients_negative=tf.reduce_sum(tf.cast(coefficients < 0, tf.int32)),
  )
  if cohort.loss is not None:
    measurements.update(
      loss_mean=_reported(tf.reduce_mean(cohort.loss)),
      loss_std=_reported(tf.math.reduce_std(cohort.loss)),
      loss_min=_reported(tf.reduce_min(cohort.loss)),
      loss_max=_reported(tf.reduce_max(cohort.loss)),
    )
  if cohort.gram is not None:
    slopes = tf.linalg.matvec(cohort.gram, coefficients)
    measurements["directional_derivative_min"] = _reported(
      tf.reduce_min(slopes)
    )
  return measurements


def _reported(value: tf.Tensor) -> tf.Tensor:
  return tf.cast(value, tf.float32) if value.dtype.is_floating else value
