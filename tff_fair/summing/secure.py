"""The secure way to sum: the server gets sums over the clients, and no more.

  e_k = exp(l_k - r),  c_k = e_k (u + v x_k),  hence
  d = u sum_k e_k Delta_k + v sum_k e_k x_k Delta_k

Each client sends e_k Delta_k, with a covariate e_k x_k Delta_k, and the scalars
w_k, e_k, e_k x_k, e_k x_k^2 and the rule's own terms into secure sums. The rule
finds u and v from these sums (`types.SeparableRule.from_sums`). One round, O(d)
memory, and no number of a single client leaves it in the clear.

Secure sums add integers, so that all numbers need bounds. A client whose terms
pass them adds zeros, and a sum counts it: to clip its update alone would take
the coefficient of another one. Scalars travel as a whole part and a fraction,
because their sizes differ by far more than integers of 32 bits can tell.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.kernels import finiteness
from tff_fair.summing import client_sums, rule_application, scalars

DEFAULT_BOUND = 1024.0
# Of numbers of examples and their products with losses, steps and the like.
SCALAR_BOUND = 2**20

_SCALARS, _WHOLE_PARTS = "scalars", "whole_parts"
_MOMENTS = ("weight", "scale", "first_moment", "second_moment")


def build_secure(
  reader: scalars.ScalarReader,
  value_type: tff.Type,
  weight_type: tff.Type,
  *,
  bound: float | None = None,
  sum_factory: client_sums.Factory | None = None,
) -> tff.templates.AggregationProcess:
  """Builds the process; see `tff_fair.aggregators.RuleFactory`.

  Args:
    reader: Reads the scalars the rule needs.
    value_type: The type of a client's update.
    weight_type: The type of its weight.
    bound: The largest absolute value in e_k Delta_k; `None` is
      `DEFAULT_BOUND`, or none with a `sum_factory`.
    sum_factory: Takes the place of TFF's secure sum.

  Returns:
    A process whose result is a `RoundUpdate` of `value_type`.
  """
  rule = reader.rule
  assert isinstance(rule, types.SeparableRule)  # `RuleFactory` checks it.
  specs = tff.types.type_to_tf_tensor_specs(value_type)
  if sum_factory is None:
    bound = DEFAULT_BOUND if bound is None else bound
  with tf.Graph().as_default():
    nobody = reader.unordered_cohort(reader.empty())
    names = (*_MOMENTS, *rule.terms(nobody))
  computations = _Computations(
    reader, rule, names, specs, bound, as_integers=sum_factory is None
  )
  return client_sums.build_client_sums(
    value_type,
    weight_type,
    initial_state=rule.initialize,
    terms=computations.terms,
    factories=_factories(bound, sum_factory),
    finish=computations.finish,
  )


@dataclasses.dataclass(frozen=True)
class _Computations:
  """What a client and the server compute in a round.

  Attributes:
    reader: Reads the client's scalars.
    rule: The rule.
    names: Names of the scalars that a client sends, in their order.
    specs: Of a client's update.
    bound: The largest absolute value in e_k Delta_k; `None` is none.
    as_integers: Whether TFF's secure sum adds what clients send.
  """

  reader: scalars.ScalarReader
  rule: types.SeparableRule
  names: tuple[str, ...]
  specs: types.TensorStructure
  bound: float | None
  as_integers: bool

  def terms(
    self, update: types.TensorStructure, weight: Any
  ) -> client_sums.Terms:
    """Returns what a client adds; zeros, if it does not count."""
    row = self.reader.read(update, weight)
    of_one = of_client(self.rule, self.reader.unordered_cohort(row))
    factors = [of_one["scale"]]
    if self.rule.has_covariate():
      factors.append(of_one["first_moment"])
    own = tf.stack([of_one[name] for name in self.names])
    scaled = tuple(self._scaled(update, factor) for factor in factors)
    within = _are_within(own, None if self.bound is None else SCALAR_BOUND)
    within &= _are_within(scaled, self.bound)
    sent = {_SCALARS: own, client_sums.UPDATE: scaled}
    if self.as_integers:
      whole = tf.round(own)
      sent[_WHOLE_PARTS] = tf.saturate_cast(whole, tf.int32)
      sent[_SCALARS] = own - whole
    return client_sums.counted(row, sent, within)

  def _scaled(
    self, update: types.TensorStructure, factor: tf.Tensor
  ) -> types.TensorStructure:
    # Integers of 32 bits have no more to tell than float32.
    specs = tf.nest.map_structure(
      lambda spec: (
        tf.TensorSpec(spec.shape, tf.float32) if self.as_integers else spec
      ),
      self.specs,
    )
    return rule_application.weighted_sum(specs, [(factor, update)])

  def finish(
    self, state: types.TensorStructure, totals: Any
  ) -> rule_application.Round:
    """Returns state, result and measurements of a round from its sums."""
    own = totals[_SCALARS]
    if self.as_integers:
      own += tf.cast(totals[_WHOLE_PARTS], own.dtype)
    sums = dict(zip(self.names, tf.unstack(own), strict=True))
    moments = {name: sums.pop(name) for name in _MOMENTS}
    output = self.rule.from_sums(types.Sums(**moments, terms=sums))
    factors = [output.level]
    if output.slope is not None:
      factors.append(output.slope)
    direction = rule_application.weighted_sum(
      self.specs, [*zip(factors, totals[client_sums.UPDATE], strict=True)]
    )
    measurements, for_finalizer = rule_application.from_sums_output(output)
    reported = client_sums.reported(totals[client_sums.COUNTS])
    reported["direction_norm"] = rule_application.direction_norm(direction)
    reported.update(measurements)
    result = rule_application.round_update(
      direction, reported["num_clients"], for_finalizer
    )
    return state, result, reported


def of_client(
  rule: types.SeparableRule, cohort: types.Cohort
) -> Mapping[str, tf.Tensor]:
  """Returns a client's terms of the sums of scalars.

  Args:
    rule: The rule.
    cohort: The client, or none; `weight` is not normalized.

  Returns:
    float64[] each: those of `types.Sums` and of the rule, by name. All are zero
    without a client.
  """
  reference = tf.constant(rule.log_reference(), tf.float64)
  e = tf.exp(rule.log_weight(cohort) - reference)
  covariate = rule.covariate(cohort)
  x = tf.zeros_like(e) if covariate is None else covariate
  of_one = {
    "weight": cohort.weight,
    "scale": e,
    "first_moment": e * x,
    "second_moment": e * tf.square(x),
    **rule.terms(cohort),
  }
  # Sums over one client, or over none.
  return {name: tf.reduce_sum(value) for name, value in of_one.items()}


def _factories(
  bound: float | None, sum_factory: client_sums.Factory | None
) -> dict[str, client_sums.Factory]:
  """Returns what adds the terms of clients, by name.

  Args:
    bound: Of the entries of updates, where TFF's secure sum adds them.
    sum_factory: Adds all terms; `None` is TFF's secure sum.
  """
  if sum_factory is not None:
    names = (client_sums.COUNTS, _SCALARS, client_sums.UPDATE)
    return dict.fromkeys(names, sum_factory)
  secure_sum = tff.aggregators.SecureSumFactory
  return {
    client_sums.COUNTS: client_sums.secure_counts(),
    _SCALARS: secure_sum(0.5),
    _WHOLE_PARTS: secure_sum(SCALAR_BOUND),
    client_sums.UPDATE: secure_sum(float(bound or DEFAULT_BOUND)),
  }


def _are_within(values: Any, bound: float | None) -> tf.Tensor:
  """Returns whether all values are finite and within a bound, bool[]."""
  within = finiteness.all_finite(values)
  for value in [] if bound is None else tf.nest.flatten(values):
    limit = tf.constant(bound, value.dtype)
    within &= tf.reduce_all(tf.abs(value) <= limit)
  return within
