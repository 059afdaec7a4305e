"""Builds rounds in which the server gets only sums over clients.

Each client computes its terms of several sums. An inner factory computes each
sum, and the server computes the result from the sums. No sum depends on another
one, so the round compiles to TFF's `MapReduceForm`. `secure` uses this module;
`comparison_sums` uses its parts.

Secure sums add integers, so all numbers need bounds. A scalar travels as a
whole part and a fraction, because one 32-bit integer cannot represent both
large scalars and small ones precisely.
"""

import collections
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.kernels import norms
from tff_fair.privacy import unused_assertions
from tff_fair.summing import client_scalars, rule_application
from tff_fair.types import SumsOutput, TensorStructure

Factory: TypeAlias = tff.aggregators.UnweightedAggregationFactory
Terms: TypeAlias = Mapping[str, Any]

# Names of sums. Every round sums counts and updates; the other two names are
# for sums of scalars.
COUNTS, UPDATE = "counts", "update"
SCALARS, _WHOLE_PARTS = "scalars", "whole_parts"

DEFAULT_BOUND = 1024.0
# The bound on scalars, which may be numbers of examples times losses.
SCALAR_BOUND = 2**20


class Counts(NamedTuple):
  """A client's status, one-hot; if summed, the number of clients by status."""

  counted: tf.Tensor  # float32[], 1 if the client is included.
  # float32[], 1 if the client has no examples, if its update or a signal is not
  # finite, or if a signal that must not be negative is negative.
  excluded: tf.Tensor
  out_of_bounds: tf.Tensor  # float32[], 1 if the terms exceed their bounds.


def with_counts(
  row: client_scalars.ScalarRows,
  sent: Terms,
  within_bounds: tf.Tensor | bool = True,
) -> Terms:
  """Adds a client's status to its terms, as `counts`.

  If the client is excluded or out of bounds, its terms become 0, even if NaN.
  """
  reports = tf.equal(row.num_excluded, 0)
  is_counted = reports & within_bounds
  return collections.OrderedDict(
    counts=Counts(
      tf.cast(is_counted, tf.float32),
      tf.cast(~reports, tf.float32),
      tf.cast(reports & ~is_counted, tf.float32),
    ),
    **tf.nest.map_structure(
      lambda x: tf.where(is_counted, x, tf.zeros_like(x)), sent
    ),
  )


@dataclasses.dataclass(frozen=True)
class Transport:
  """How clients' terms are summed, and the bound on the scaled updates.

  `sum_factory` computes the sums; `None` stands for TFF's secure sum.
  """

  sum_factory: Factory | None
  bound: float | None

  @classmethod
  def from_options(
    cls, sum_factory: Factory | None, bound: float | None
  ) -> Self:
    """Returns the transport for the options `sum_factory`, `secure_bound`."""
    if sum_factory is None:
      bound = float(DEFAULT_BOUND if bound is None else bound)
    return cls(sum_factory, bound)

  @property
  def uses_integers(self) -> bool:
    """Whether clients send integers, to TFF's secure sum."""
    return self.sum_factory is None

  def scalar_terms(self, values: tf.Tensor) -> Terms:
    """Returns the terms that a client sends for its scalars, float64[n]."""
    if not self.uses_integers:
      return {SCALARS: values}
    whole = tf.round(values)
    return {
      SCALARS: values - whole,
      _WHOLE_PARTS: tf.saturate_cast(whole, tf.int32),
    }

  def scalar_sums(self, totals: Terms) -> tf.Tensor:
    """Returns the sums of scalars, float64[n], from sums of `scalar_terms`."""
    found = totals[SCALARS]
    if self.uses_integers:
      found += tf.cast(totals[_WHOLE_PARTS], found.dtype)
    return found

  def scale(
    self, specs: TensorStructure, update: TensorStructure, factor: tf.Tensor
  ) -> TensorStructure:
    """Returns an update times a factor, in float32 if sums are secure.

    Otherwise, the result has the dtypes of `specs`.
    """
    # The secure sum adds 32-bit integers, so float64 would gain nothing.
    if self.uses_integers:
      specs = tf.nest.map_structure(
        lambda spec: tf.TensorSpec(spec.shape, tf.float32), specs
      )
    return rule_application.weighted_sum(specs, [(factor, update)])

  def scalars_fit(self, values: tf.Tensor) -> tf.Tensor:
    """Returns whether scalars are within their bound, bool[]."""
    return _are_within(values, None if self.bound is None else SCALAR_BOUND)

  def updates_fit(self, scaled: TensorStructure) -> tf.Tensor:
    """Returns whether scaled updates are within their bound, bool[]."""
    return _are_within(scaled, self.bound)

  @property
  def factories(self) -> dict[str, Factory]:
    """The factories that sum the clients' terms, by name."""
    if self.sum_factory is not None:
      return dict.fromkeys((COUNTS, SCALARS, UPDATE), self.sum_factory)
    secure_sum = tff.aggregators.SecureSumFactory
    return {
      COUNTS: secure_count_factory(),
      SCALARS: secure_sum(0.5),
      _WHOLE_PARTS: secure_sum(SCALAR_BOUND),
      UPDATE: secure_sum(self.bound),
    }


def _are_within(values: Any, bound: float | None) -> tf.Tensor:
  """Returns whether all values are finite and within a bound, bool[]."""
  within = norms.all_finite(values)
  for value in [] if bound is None else tf.nest.flatten(values):
    limit = tf.constant(bound, value.dtype)
    within &= tf.reduce_all(tf.abs(value) <= limit)
  return within


def secure_count_factory() -> Factory:
  """Returns a factory that adds counts securely.

  It represents 0 and 1 exactly, so numbers of clients are exact.
  """
  return tff.aggregators.SecureSumFactory(1.0, 0.0)


def common_measurements(
  counts: Counts, direction: TensorStructure
) -> collections.OrderedDict[str, Any]:
  """Returns the numbers of clients, int32[], and the norm of the direction."""
  numbers = [tf.cast(tf.round(count), tf.int32) for count in counts]
  return collections.OrderedDict(
    num_clients=numbers[0],
    num_clients_excluded=numbers[1],
    num_clients_out_of_bounds=numbers[2],
    direction_norm=rule_application.direction_norm(direction),
  )


def end_round(
  state: TensorStructure,
  totals: Terms,
  specs: TensorStructure,
  output: SumsOutput,
  factors: Sequence[tf.Tensor],
) -> rule_application.RoundOutput:
  """Returns the state, the result and the measurements of a round.

  The direction adds up the update sums in `totals`, each times its factor.
  """
  direction = rule_application.weighted_sum(
    specs, [*zip(factors, totals[UPDATE], strict=True)]
  )
  measurements = common_measurements(totals[COUNTS], direction)
  num_clients: tf.Tensor = measurements["num_clients"]
  for name, value in output.measurements.items():
    known = tf.where(
      num_clients > 0, value, rule_application.missing_value(value)
    )
    measurements[name] = rule_application.as_reported(known)
  for_finalizer = {
    name: rule_application.as_reported(value)
    for name, value in output.for_finalizer.items()
  }
  result = rule_application.round_update(direction, num_clients, for_finalizer)
  return state, result, measurements


class Sums:
  """Sums clients' terms by name; no sum depends on another.

  `inner` is the type of the measurements of the update sum; it is empty if
  updates are not summed.
  """

  def __init__(
    self, terms_type: tff.StructType, factories: Mapping[str, Factory]
  ) -> None:
    """Builds a process for each term by the factory of the same name."""
    unused_assertions.keep_out_of_log()
    self.terms_type = terms_type
    self._processes = {
      name: factories[name].create(terms_type[name])
      for name in tff.structure.name_list(terms_type)
    }
    of_update = self._processes.get(UPDATE)
    self.inner: tff.Type = (
      of_update.next.type_signature.result.measurements.member
      if of_update
      else tff.StructType([])
    )

  def initialize(self) -> Any:
    """Returns the states of the sums, by name, at the server."""
    return collections.OrderedDict(
      (name, process.initialize()) for name, process in self._processes.items()
    )

  def add(self, state: Any, terms: Any) -> tff.templates.MeasuredProcessOutput:
    """Sums the terms; the output's measurements are those of the update sum."""
    outputs = {
      name: process.next(state[name], terms[name])
      for name, process in self._processes.items()
    }
    return tff.templates.MeasuredProcessOutput(
      tff.federated_zip(
        collections.OrderedDict((n, o.state) for n, o in outputs.items())
      ),
      tff.federated_zip(
        collections.OrderedDict((n, o.result) for n, o in outputs.items())
      ),
      outputs[UPDATE].measurements
      if UPDATE in outputs
      else tff.federated_value((), tff.SERVER),
    )


def build_client_sums(
  value_type: tff.Type,
  weight_type: tff.Type,
  *,
  initial_state: Callable[[], TensorStructure],
  terms: Callable[[TensorStructure, Any], Terms],
  factories: Mapping[str, Factory],
  finish: Callable[[TensorStructure, Terms], rule_application.RoundOutput],
) -> tff.templates.AggregationProcess:
  """Builds an aggregation process from TensorFlow functions.

  `terms` maps a client's update and weight to named values. `factories` maps
  the same names to factories that sum these values. `finish` maps the rule's
  state and the sums to the round's output. The measurement `sum` contains the
  measurements of the sum of updates, if there are any.
  """
  compute = tff.tensorflow.computation
  get_state = compute(initial_state)
  make_terms = compute(terms, (value_type, weight_type))
  sums = Sums(make_terms.type_signature.result, factories)
  finish_round = compute(
    lambda state, totals, inner: rule_application.with_inner_measurements(
      finish(state, totals), inner
    ),
    (get_state.type_signature.result, sums.terms_type, sums.inner),
  )

  @tff.federated_computation
  def initialize() -> Any:
    return tff.federated_zip(
      collections.OrderedDict(
        rule=tff.federated_eval(get_state, tff.SERVER),
        sums=sums.initialize(),
      )
    )

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(value_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
  )
  def next_fn(state: Any, update: Any, weight: Any) -> Any:
    terms = tff.federated_map(make_terms, (update, weight))
    output = sums.add(state["sums"], terms)
    rule_state, result, measurements = tff.federated_map(
      finish_round, (state["rule"], output.result, output.measurements)
    )
    new_state = collections.OrderedDict(rule=rule_state, sums=output.state)
    return tff.templates.MeasuredProcessOutput(
      tff.federated_zip(new_state), result, measurements
    )

  return tff.templates.AggregationProcess(initialize, next_fn)
