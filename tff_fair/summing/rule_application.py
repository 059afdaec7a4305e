"""Applies a rule to a collected cohort, and builds the round's measurements.

All kinds of aggregation use this module.
"""

import collections
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import tensorflow as tf

from tff_fair import types
from tff_fair.kernels import norms, pareto_stationarity
from tff_fair.summing import client_scalars

# The rule's state, the result and the measurements.
RoundOutput: TypeAlias = tuple[
  types.TensorStructure,
  types.RoundUpdate,
  collections.OrderedDict[str, types.TensorStructure],
]


def apply_rule(
  reader: client_scalars.ScalarReader,
  rows: client_scalars.ScalarRows,
  state: types.TensorStructure,
  gram: tf.Tensor | None = None,
  remembered: tuple[tf.Tensor, tf.Tensor] | None = None,
  *,
  tape: bool = False,
) -> types.RuleOutput:
  """Applies a rule to a cohort of m clients, whose rows may be in any order.

  `gram`, float64[m, m] in the order of `rows`, is given if the rule or the
  certificate needs it. `remembered` holds the client ids, int64[r], and the
  ages, int32[r], of r remembered updates; `gram` is then float64[m + r, m + r].
  The output's coefficients are in the order of `rows`. Its measurements are
  those that every method reports; the certificate, if there is a `gram`; those
  of the rule; and with `tape`, which needs `gram`, those of
  `tff_fair.summing.tape`. An empty cohort does not change the state.
  """
  num_clients = tf.size(rows.client_id)
  num_remembered = 0 if remembered is None else tf.size(remembered[0])

  def apply() -> types.RuleOutput:
    order = tf.argsort(rows.client_id, stable=True)
    cohort = _ordered_cohort(reader, rows, order)
    arrival = tf.math.invert_permutation(order)
    if gram is not None:
      kept = tf.range(num_clients, num_clients + num_remembered)
      order, arrival = (
        tf.concat([order, kept], 0),
        tf.concat([arrival, kept], 0),
      )
      ordered = tf.gather(tf.gather(gram, order, axis=0), order, axis=1)
      if reader.rule.geometry is types.Geometry.GRAM:
        cohort = cohort._replace(
          gram=ordered,
          squared_norm=tf.linalg.diag_part(ordered)[:num_clients],
        )
    if remembered is not None:
      cohort = cohort._replace(
        remembered_id=remembered[0], remembered_age=remembered[1]
      )
    output = reader.rule.coefficients(cohort, state)
    measurements = _cohort_measurements(cohort, output.coefficients)
    if gram is not None:
      measurements.update(
        _certificate(reader.rule, ordered, output.coefficients, num_clients)
      )
    measurements.update(
      (name, as_reported(value)) for name, value in output.measurements.items()
    )
    if tape:
      from tff_fair.summing import tape as tape_lib  # noqa: PLC0415  Few need it.

      measurements.update(
        tape_lib.record_rule(cohort, ordered, output.coefficients)
      )
    return types.RuleOutput(
      tf.gather(output.coefficients, arrival),
      output.state,
      measurements,
      {name: as_reported(v) for name, v in output.for_finalizer.items()},
    )

  no_coefficients = tf.zeros([num_clients + num_remembered], tf.float64)
  return _unless_empty(num_clients > 0, apply, no_coefficients, state)


def _ordered_cohort(
  reader: client_scalars.ScalarReader,
  rows: client_scalars.ScalarRows,
  order: tf.Tensor,
) -> types.Cohort:
  """Returns the cohort of `rows` in `order`, with weights that sum to 1."""
  cohort = reader.unordered_cohort(
    rows._replace(
      client_id=tf.gather(rows.client_id, order),
      columns=tf.gather(rows.columns, order),
    )
  )
  return cohort._replace(weight=cohort.weight / tf.reduce_sum(cohort.weight))


def round_output(
  reader: client_scalars.ScalarReader,
  rows: client_scalars.ScalarRows,
  output: types.RuleOutput,
  direction: types.TensorStructure,
) -> RoundOutput:
  """Returns the state, the result and the measurements of an aggregation.

  If clients have ids, the measurements include the ascending `client_ids`,
  int64[m] for m clients, and in the same order `coefficients`, float32[m]; if
  clients report losses, also `client_losses`, float32[m]. If the direction is
  not finite, neither is the reported norm, and the server takes no step.
  """
  num_clients = tf.size(rows.client_id)
  measurements = collections.OrderedDict(
    num_clients=num_clients,
    num_clients_excluded=rows.num_excluded,
    direction_norm=direction_norm(direction),
  )
  if reader.fields:
    order = tf.argsort(rows.client_id, stable=True)
    measurements["client_ids"] = tf.gather(rows.client_id, order)
    measurements["coefficients"] = as_reported(
      tf.gather(output.coefficients, order)
    )
    if "loss" in reader.fields:
      losses = rows.columns[:, reader.columns.index("loss")]
      measurements["client_losses"] = as_reported(tf.gather(losses, order))
  measurements.update(output.measurements)
  result = round_update(direction, num_clients, output.for_finalizer)
  return output.state, result, measurements


def with_inner_measurements(
  output: RoundOutput, inner: types.TensorStructure
) -> RoundOutput:
  """Adds an inner sum's measurements, if any, to the measurements, as `sum`."""
  state, result, measurements = output
  if tf.nest.flatten(inner):
    measurements["sum"] = inner
  return state, result, measurements


def round_update(
  direction: types.TensorStructure,
  num_clients: tf.Tensor,
  for_finalizer: Mapping[str, tf.Tensor],
) -> types.RoundUpdate:
  """Returns the result of an aggregation, for the finalizer.

  A sum of finite updates may overflow. If the direction is not finite, the
  result has `num_clients` 0, so that the finalizer takes no step.
  """
  is_finite = tf.math.is_finite(norms.squared_norm(direction))
  return types.RoundUpdate(
    tf.cond(
      is_finite,
      lambda: tf.nest.map_structure(tf.identity, direction),
      lambda: tf.nest.map_structure(tf.zeros_like, direction),
    ),
    tf.where(is_finite, num_clients, 0),
    for_finalizer,
  )


def direction_norm(direction: types.TensorStructure) -> tf.Tensor:
  """Returns ||d|| as a measurement, float32[]."""
  return as_reported(tf.sqrt(norms.squared_norm(direction)))


def weighted_sum(
  specs: types.TensorStructure,
  terms: Sequence[tuple[tf.Tensor, types.TensorStructure]],
) -> types.TensorStructure:
  """Returns the sum of the terms, each a factor times a structure.

  It is computed in float64, and returned in the dtypes of `specs`.
  """

  def add(spec: tf.TensorSpec, *layers: tf.Tensor) -> tf.Tensor:
    scaled = [
      factor * tf.cast(layer, tf.float64)
      for (factor, _), layer in zip(terms, layers, strict=True)
    ]
    return tf.cast(tf.add_n(scaled), spec.dtype)

  return tf.nest.map_structure(add, specs, *[term for _, term in terms])


def _unless_empty(
  any_client: tf.Tensor,
  apply: Callable[[], types.RuleOutput],
  no_coefficients: tf.Tensor,
  state: types.TensorStructure,
) -> types.RuleOutput:
  """Returns `apply()` if there are clients, otherwise an empty output.

  The empty output has `no_coefficients`, the old state, and measurements that
  are NaN or 0.
  """
  reported: list[Mapping[str, tf.Tensor]] = []

  def applied() -> tuple[types.TensorStructure, ...]:
    output = apply()
    reported.extend([output.measurements, output.for_finalizer])
    values = tuple(tuple(group.values()) for group in reported)
    return output.coefficients, output.state, values

  def unchanged() -> tuple[types.TensorStructure, ...]:
    # `applied` is traced first; it determines what to report.
    measured, for_finalizer = (group.values() for group in reported)
    return (
      no_coefficients,
      tf.nest.map_structure(tf.identity, state),
      (
        # A vector has one entry per client, so without clients it is empty.
        tuple(tf.fill([0] * v.shape.rank, missing_value(v)) for v in measured),
        tuple(tf.zeros([0] * v.shape.rank, v.dtype) for v in for_finalizer),
      ),
    )

  coefficients, new_state, values = tf.cond(any_client, applied, unchanged)
  measurements, for_finalizer = (
    collections.OrderedDict(zip(group, group_values, strict=True))
    for group, group_values in zip(reported, values, strict=True)
  )
  return types.RuleOutput(coefficients, new_state, measurements, for_finalizer)


def _cohort_measurements(
  cohort: types.Cohort, coefficients: tf.Tensor
) -> collections.OrderedDict[str, tf.Tensor]:
  """Returns the measurements that every method reports for a cohort.

  They describe the coefficients and, if clients report losses, the losses.
  """
  num_clients = tf.size(cohort.client_id)
  of_cohort = coefficients[:num_clients]
  measurements = collections.OrderedDict(
    coefficient_min=as_reported(tf.reduce_min(of_cohort)),
    coefficient_max=as_reported(tf.reduce_max(of_cohort)),
    coefficients_negative=tf.reduce_sum(tf.cast(of_cohort < 0, tf.int32)),
  )
  if cohort.loss is not None:
    measurements.update(
      loss_mean=as_reported(tf.reduce_mean(cohort.loss)),
      loss_std=as_reported(tf.math.reduce_std(cohort.loss)),
      loss_min=as_reported(tf.reduce_min(cohort.loss)),
      loss_max=as_reported(tf.reduce_max(cohort.loss)),
    )
  return measurements


def _certificate(
  rule: types.Rule,
  gram: tf.Tensor,
  coefficients: tf.Tensor,
  num_clients: tf.Tensor,
) -> dict[str, tf.Tensor]:
  """Returns the measurements of a round's certificate; see `RuleFactory`."""
  slopes = tf.linalg.matvec(gram[:num_clients], coefficients)
  stationarity = pareto_stationarity(
    gram[:num_clients, :num_clients],
    coefficients if rule.finds_least_norm else None,
  )
  return {
    "directional_derivative_min": as_reported(tf.reduce_min(slopes)),
    "share_descending": tf.reduce_mean(tf.cast(slopes > 0, tf.float32)),
    "pareto_stationarity": as_reported(stationarity.value),
    "blocking_weights": as_reported(stationarity.weights),
  }


def missing_value(value: tf.Tensor) -> tf.Tensor:
  """Returns a measurement's value in an empty round: NaN, or integer 0."""
  zero = tf.zeros([], value.dtype)
  return zero * math.nan if value.dtype.is_floating else zero


def as_reported(value: tf.Tensor) -> tf.Tensor:
  """Returns a measurement, with floats cast to float32 for the report."""
  return tf.cast(value, tf.float32) if value.dtype.is_floating else value
