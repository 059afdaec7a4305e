"""Builds successive secure sums, by which clients compare with each other.

  phase i:  s_i = sum_k t_ki
  last:     E_j = sum_k e_kj,  S_j = sum_k e_kj Delta_k
  d = sum_j u_j S_j

t_ki and e_kj depend on client k's scalars and the sums of earlier phases; u_j
depends on all sums. Before each phase the server broadcasts the earlier sums,
which show clients where they rank; see `types.ComparingRule`. The server gets
only sums over the whole cohort. `secure` explains the bounds.

A client whose loss exceeds its bound adds zeros in all phases. A client whose
terms in a phase exceed their bounds adds zeros from this phase on, when the
others may have already compared themselves with it. The scaled update is a term
of the last phase.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.summing import client_scalars, client_sums, rule_application


class ComparingProcess(tff.templates.AggregationProcess):
  """An aggregation process whose sums can also be computed one by one."""

  # Each phase computes one sum. It takes the arguments of `next`, followed by
  # the results of all earlier phases at the server. The last phase returns the
  # result of `next`.
  phases: Sequence[tff.Computation]


def build(
  reader: client_scalars.ScalarReader,
  value_type: tff.Type,
  weight_type: tff.Type,
  *,
  bound: float | None = None,
  sum_factory: client_sums.Factory | None = None,
) -> ComparingProcess:
  """Builds the process of a `RuleFactory` with a `ComparingRule`.

  `bound` limits the entries of e_kj Delta_k; `None` and `sum_factory` have the
  same meaning as in `secure.build_secure`.
  """
  rule = reader.rule
  assert isinstance(rule, types.ComparingRule)  # `RuleFactory` checks it.
  transport = client_sums.Transport.from_options(sum_factory, bound)
  specs = tff.types.type_to_tf_tensor_specs(value_type)
  parts = _Computations(reader, rule, specs, transport)
  compute = tff.tensorflow.computation
  read = compute(reader.read, (value_type, weight_type))
  row_type = read.type_signature.result
  phases = _build_phases(parts, row_type)
  known_type = _known_type(phases)
  last = compute(
    lambda update, row, known: parts.last_terms(update, row, [*known]),
    (value_type, row_type, known_type),
  )
  sums = client_sums.Sums(last.type_signature.result, transport.factories)
  finish = compute(
    lambda totals, inner, known: rule_application.with_inner_measurements(
      parts.finish(totals, [*known]), inner
    )[1:],
    (sums.terms_type, sums.inner, known_type),
  )

  @tff.federated_computation
  def initialize() -> Any:
    return tff.federated_zip(
      [*(phase.sums.initialize() for phase in phases), sums.initialize()]
    )

  def compare(state: Any, update: Any, weight: Any, *before: Any) -> Any:
    phase = phases[len(before)]
    row = tff.federated_map(read, (update, weight))
    given = (
      (row, tff.federated_broadcast(_earlier_sums(before))) if before else row
    )
    output = phase.sums.add(
      state[len(before)], tff.federated_map(phase.make_terms, given)
    )
    total = tff.federated_map(phase.total, output.result)
    return tff.federated_zip(
      collections.OrderedDict(state=output.state, total=total)
    )

  def end(state: Any, update: Any, weight: Any, *before: Any) -> Any:
    row = tff.federated_map(read, (update, weight))
    at_server = _earlier_sums(before)
    known = tff.federated_broadcast(at_server)
    output = sums.add(
      state[len(before)], tff.federated_map(last, (update, row, known))
    )
    result, measurements = tff.federated_map(
      finish, (output.result, output.measurements, at_server)
    )
    states = tff.federated_zip([*(b["state"] for b in before), output.state])
    return tff.templates.MeasuredProcessOutput(states, result, measurements)

  given = (
    initialize.type_signature.result,
    tff.FederatedType(value_type, tff.CLIENTS),
    tff.FederatedType(weight_type, tff.CLIENTS),
  )
  computations = build_phase_computations(
    given, [*[compare] * len(phases), end]
  )

  @tff.federated_computation(*given)
  def next_fn(state: Any, update: Any, weight: Any) -> Any:
    results: list[Any] = []
    for phase in computations:
      results.append(phase(state, update, weight, *results))
    return results[-1]

  process = ComparingProcess(initialize, next_fn)
  process.phases = computations
  return process


def build_phase_computations(
  given: Iterable[Any], phases: Sequence[Callable[..., Any]]
) -> Sequence[tff.Computation]:
  """Returns a computation for each phase.

  Each computation takes the `given` types, then the results of earlier phases.
  """
  taken = [*given]
  found: list[tff.Computation] = []
  for phase in phases:
    found.append(_computation(phase, taken))
    taken.append(found[-1].type_signature.result)
  return found


def _computation(
  phase: Callable[..., Any], taken: Sequence[Any]
) -> tff.Computation:
  @tff.federated_computation(tff.StructType(taken))
  def compute(args: Any) -> Any:
    return phase(*args)

  return compute


def _earlier_sums(before: Sequence[Any]) -> Any:
  """Returns the sums from the results of earlier phases, at the server."""
  return tff.federated_zip([result["total"] for result in before])


def _build_phases(parts: _Computations, row_type: tff.Type) -> Sequence[_Phase]:
  """Builds the phases before the last."""
  compute = tff.tensorflow.computation
  first = compute(lambda row: parts.terms(row, ()), row_type)
  phases = [_Phase(first, parts.transport)]
  while len(phases) < parts.rule.num_phases:
    make_terms = compute(
      lambda row, known: parts.terms(row, [*known]),
      (row_type, _known_type(phases)),
    )
    phases.append(_Phase(make_terms, parts.transport))
  return phases


class _Phase:
  """A phase before the last; `total` computes its sum s_i, float64[n].

  `make_terms` maps a client's row and the earlier sums to the client's terms.
  """

  def __init__(
    self, make_terms: tff.Computation, transport: client_sums.Transport
  ) -> None:
    self.make_terms = make_terms
    self.sums = client_sums.Sums(
      make_terms.type_signature.result, transport.factories
    )
    self.total = tff.tensorflow.computation(
      transport.scalar_sums, self.sums.terms_type
    )


def _known_type(phases: Sequence[_Phase]) -> tff.Type:
  """Returns the type of the sums of all `phases`."""
  return tff.to_type([phase.total.type_signature.result for phase in phases])


@dataclasses.dataclass(frozen=True)
class _Computations:
  """The clients' and the server's computations in a round, except the sums."""

  reader: client_scalars.ScalarReader
  rule: types.ComparingRule
  specs: types.TensorStructure
  transport: client_sums.Transport

  def terms(
    self, row: client_scalars.ScalarRows, known: Sequence[tf.Tensor]
  ) -> client_sums.Terms:
    """Returns a client's terms in a phase; `known` are the earlier sums.

    They are zeros if the client is excluded, or a scalar in this or an earlier
    phase exceeds its bound.
    """
    cohort = self.reader.unordered_cohort(row)
    own = tf.reduce_sum(self.rule.phase(cohort, known), axis=0)
    counted = client_sums.with_counts(
      row, self.transport.scalar_terms(own), self._is_within(cohort, known)
    )
    # Only the last phase sums the counts.
    return collections.OrderedDict(
      (n, terms) for n, terms in counted.items() if n != client_sums.COUNTS
    )

  def last_terms(
    self,
    update: types.TensorStructure,
    row: client_scalars.ScalarRows,
    known: Sequence[tf.Tensor],
  ) -> client_sums.Terms:
    """Returns a client's terms in the last phase, with the client's status."""
    cohort = self.reader.unordered_cohort(row)
    factors = tf.reduce_sum(self.rule.factors(cohort, known), axis=0)
    scaled = tuple(
      self.transport.scale(self.specs, update, factor)
      for factor in tf.unstack(factors)
    )
    within = self._is_within(cohort, known)
    within &= self.transport.scalars_fit(factors)
    within &= self.transport.updates_fit(scaled)
    sent = {**self.transport.scalar_terms(factors), client_sums.UPDATE: scaled}
    return client_sums.with_counts(row, sent, within)

  def finish(
    self, totals: Any, known: Sequence[tf.Tensor]
  ) -> rule_application.RoundOutput:
    """Returns the state (empty), the result and the measurements of a round."""
    levels, measurements = self.rule.levels(
      known, self.transport.scalar_sums(totals)
    )
    output = types.SumsOutput(levels, measurements=measurements)
    return client_sums.end_round(
      (), totals, self.specs, output, tf.unstack(levels)
    )

  def _is_within(
    self, cohort: types.Cohort, known: Sequence[tf.Tensor]
  ) -> tf.Tensor:
    """Returns whether a client's loss and terms are within bounds, bool[].

    The terms are those of this phase, unless it is the last, and all earlier
    ones, whose sums are in `known`.
    """
    within = tf.constant(True)
    for number in range(min(len(known) + 1, self.rule.num_phases)):
      terms = self.rule.phase(cohort, known[:number])
      within &= self.transport.scalars_fit(terms)
    if self.rule.loss_bound is not None:
      bound = tf.constant(self.rule.loss_bound, tf.float64)
      within &= tf.reduce_all(tf.abs(cohort.loss) <= bound)
    return within
