"""Streaming aggregation: the server adds updates as they arrive.

  c_k = exp(l_k) (u + v x_k),  hence  d = (u + v x_bar) T + v C

with weights e_k = exp(l_k), a covariate x_k, updates Delta_k, and

  W = sum e_k,  T = sum e_k Delta_k,  x_bar = sum e_k x_k / W
  C = sum e_k (x_k - x_bar) (Delta_k - T / W)

The server computes u and v once it knows all scalars. This works for each
`SeparableRule`, in one mergeable aggregate. The server's memory is O(d), the
size of an update, plus each client's scalars.

Weights are stored relative to the largest one seen, so that no exp overflows.
C is merged pairwise (Chan, Golub, LeVeque, "Updating Formulae and a Pairwise
Algorithm for Computing Sample Variances", 1979), so that large covariates with
small differences lose no precision.
"""

from typing import NamedTuple, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.kernels import stacking
from tff_fair.summing import client_scalars, rule_application, single_aggregate
from tff_fair.types import TensorStructure

_LEAST_SHARE = 1e-30


class Moments(NamedTuple):
  """Moments of several clients' updates, defined in the module's docstring."""

  # float64[], the largest l_k; -inf if no client has a positive weight.
  log_scale: tf.Tensor
  weight: tf.Tensor  # float64[], W exp(-log_scale).
  total: TensorStructure  # T exp(-log_scale), like an update.
  # float64[], x_bar; `()` without a covariate.
  covariate: tf.Tensor | tuple[()] = ()
  # C exp(-log_scale), like an update; `()` without a covariate.
  comoment: TensorStructure = ()


# The scalars of the clients so far, and the moments of their updates.
ScalarsAndMoments: TypeAlias = tuple[client_scalars.ScalarRows, Moments]


def build_streaming(
  reader: client_scalars.ScalarReader,
  value_type: tff.Type,
  weight_type: tff.Type,
) -> tff.templates.AggregationProcess:
  """Builds the process of a `RuleFactory` that adds updates as they arrive."""
  rule = reader.rule
  assert isinstance(rule, types.SeparableRule)  # `RuleFactory` checks it.
  specs = tff.types.type_to_tf_tensor_specs(value_type)
  has_covariate = rule.has_covariate()

  def zero() -> ScalarsAndMoments:
    return reader.empty(), no_moments(specs, has_covariate)

  def accumulate(
    seen: ScalarsAndMoments, client: single_aggregate.Client
  ) -> ScalarsAndMoments:
    row = reader.read(client["update"], client["weight"])
    of_all = tf.cond(
      tf.equal(row.num_excluded, 0),
      lambda: merge_moments(
        seen[1], _client_moments(reader, rule, row, client)
      ),
      lambda: tf.nest.map_structure(tf.identity, seen[1]),
    )
    return client_scalars.concat_rows(seen[0], row), of_all

  def apply_rule(
    state: types.TensorStructure, seen: ScalarsAndMoments
  ) -> rule_application.RoundOutput:
    rows, of_all = seen
    output = rule_application.apply_rule(reader, rows, state)
    level = tf.math.divide_no_nan(
      tf.reduce_sum(output.coefficients), of_all.weight
    )
    terms = [(level, of_all.total)]
    if has_covariate:
      slope = _slope(rule, reader, rows, of_all, output)
      terms.append((slope, of_all.comoment))
    return rule_application.round_output(
      reader, rows, output, rule_application.weighted_sum(specs, terms)
    )

  return single_aggregate.build_single_aggregate(
    value_type,
    weight_type,
    initial_state=rule.initialize,
    zero=zero,
    accumulate=accumulate,
    merge=_merge,
    apply_rule=apply_rule,
  )


def _client_moments(
  reader: client_scalars.ScalarReader,
  rule: types.SeparableRule,
  row: client_scalars.ScalarRows,
  client: single_aggregate.Client,
) -> Moments:
  """Returns the moments of one client that is not excluded."""
  cohort = reader.unordered_cohort(row)
  covariate = rule.covariate(cohort)
  return moments_of_one(
    rule.log_weight(cohort)[0],
    None if covariate is None else covariate[0],
    client["update"],
  )


def _merge(
  first: ScalarsAndMoments, second: ScalarsAndMoments
) -> ScalarsAndMoments:
  return (
    client_scalars.concat_rows(first[0], second[0]),
    merge_moments(first[1], second[1]),
  )


def _slope(
  rule: types.SeparableRule,
  reader: client_scalars.ScalarReader,
  rows: client_scalars.ScalarRows,
  seen: Moments,
  output: types.RuleOutput,
) -> tf.Tensor:
  """Returns v exp(log_scale), float64[], where c_k = e_k (u + v x_k)."""
  cohort = reader.unordered_cohort(rows)
  weights = tf.exp(rule.log_weight(cohort) - seen.log_scale)
  covariate = rule.covariate(cohort)
  assert covariate is not None  # Called only if there is one.
  centred = covariate - seen.covariate
  return tf.math.divide_no_nan(
    tf.reduce_sum(output.coefficients * centred),
    tf.reduce_sum(weights * tf.square(centred)),
  )


def no_moments(update_specs: TensorStructure, with_covariate: bool) -> Moments:
  """Returns the moments of an empty set of clients."""
  scalar = tf.zeros([], tf.float64)
  return Moments(
    tf.constant(float("-inf"), tf.float64),
    scalar,
    stacking.zeros(update_specs),
    scalar if with_covariate else (),
    stacking.zeros(update_specs) if with_covariate else (),
  )


def moments_of_one(
  log_weight: tf.Tensor, covariate: tf.Tensor | None, update: TensorStructure
) -> Moments:
  """Returns the moments of one client; `log_weight` -inf is a weight of 0."""
  weighs = log_weight > float("-inf")
  return Moments(
    log_weight,
    tf.cast(weighs, tf.float64),
    update,
    ()
    if covariate is None
    else tf.where(weighs, covariate, tf.zeros_like(covariate)),
    () if covariate is None else tf.nest.map_structure(tf.zeros_like, update),
  )


def merge_moments(first: Moments, second: Moments) -> Moments:
  """Returns the joint moments of two sets of clients."""
  log_scale = tf.maximum(first.log_scale, second.log_scale)
  finite = tf.where(
    tf.math.is_finite(log_scale), log_scale, tf.zeros_like(log_scale)
  )
  share_1 = tf.exp(first.log_scale - finite)
  share_2 = tf.exp(second.log_scale - finite)
  weight_1 = share_1 * first.weight
  weight_2 = share_2 * second.weight
  weight = weight_1 + weight_2

  total = _scaled_sum(share_1, first.total, share_2, second.total)
  if isinstance(first.covariate, tuple):
    return Moments(log_scale, weight, total)
  distance = second.covariate - first.covariate
  covariate = first.covariate + distance * tf.math.divide_no_nan(
    weight_2, weight
  )
  # C gains W1 W2 / W (x2 - x1) (T2/W2 - T1/W1). The divisors W1 and W2, which
  # may be zero, cancel.
  factor_1 = -distance * tf.math.divide_no_nan(weight_2, weight) * share_1
  factor_2 = distance * tf.math.divide_no_nan(weight_1, weight) * share_2
  comoment = tf.nest.map_structure(
    lambda c1, c2, t1, t2: (
      _combination(share_1, c1, share_2, c2)
      + _combination(factor_1, t1, factor_2, t2)
    ),
    first.comoment,
    second.comoment,
    first.total,
    second.total,
  )
  return Moments(log_scale, weight, total, covariate, comoment)


def _scaled_sum(
  a: tf.Tensor, first: TensorStructure, b: tf.Tensor, second: TensorStructure
) -> TensorStructure:
  """Returns a * first + b * second, for shares a, b in [0, 1].

  A share that is too small for float32 may still matter if its update is close
  to float32's maximum. In that case, the sum is computed in float64, which
  takes twice as long. Sums of 16-bit floats are always computed in float64.
  """
  shares = tf.stack([a, b])
  in_range = tf.reduce_all(
    tf.logical_or(tf.equal(shares, 0.0), shares > _LEAST_SHARE)
  )

  def add(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.cast(a, x.dtype) * x + tf.cast(b, y.dtype) * y

  def add_in_float64(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return _combination(a, x, b, y)

  if any(layer.dtype.size < 4 for layer in tf.nest.flatten(first)):
    return tf.nest.map_structure(add_in_float64, first, second)
  return tf.cond(
    in_range,
    lambda: tf.nest.map_structure(add, first, second),
    lambda: tf.nest.map_structure(add_in_float64, first, second),
  )


def _combination(
  a: tf.Tensor, x: tf.Tensor, b: tf.Tensor, y: tf.Tensor
) -> tf.Tensor:
  """Returns a x + b y in the dtype of x, rounded once."""
  total = a * tf.cast(x, tf.float64) + b * tf.cast(y, tf.float64)
  return tf.cast(total, x.dtype)
