"""Splits rounds into phases, for workers that share the clients.

In two phases, first all clients measure, then all clients train:

  first:   the server broadcasts theta, clients evaluate it, and the rule
           chooses their coefficients
  second:  clients train and scale their updates; the server applies the sum

No sum of a phase depends on another sum of the same phase. Each phase takes
O(d) memory. If a client is excluded only in the second phase, both phases run
again without it, as if it had not taken part.

If clients compare with each other by secure sums, each of these sums is a
phase. Clients train in each phase. So a client whose update is not finite can
exclude itself from every sum; the server could not exclude it, because the sums
do not show which client it is.

If clients keep state, the program keeps the tables of all clients. In a call,
it sends each client only the client's own rows, along with the data, and gets
the cohort's new rows back. So no call moves a whole table.
"""

import collections
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow_federated as tff

from tff_fair import client_works, keras_state, summing
from tff_fair.client_works import batches, client_state, client_table
from tff_fair.runtime import phases
from tff_fair.summing import comparison_sums, two_phase


class RoundParts(NamedTuple):
  """The parts from which a process is composed."""

  distributor: tff.learning.templates.DistributionProcess
  work: client_works.MethodWork
  factory: summing.RuleFactory
  finalizer: tff.learning.templates.FinalizerProcess


def send(parts: RoundParts, state: Any) -> tff.templates.MeasuredProcessOutput:
  """Runs the distributor on a round's state; returns its output."""
  return parts.distributor.next(state.distributor, state.global_model_weights)


def end_round(
  parts: RoundParts,
  state: Any,
  sent: tff.templates.MeasuredProcessOutput,
  trained: tff.templates.MeasuredProcessOutput,
  summed: tff.templates.MeasuredProcessOutput,
  **further: tff.Value,
) -> tff.learning.templates.LearningProcessOutput:
  """Applies the finalizer; returns the output that `tff.learning` would return.

  `sent`, `trained` and `summed` are the outputs of the distributor, the client
  work and the aggregation; `further` are more metrics by name.
  """
  stepped = parts.finalizer.next(
    state.finalizer, state.global_model_weights, summed.result
  )
  return tff.learning.templates.LearningProcessOutput(
    tff.federated_zip(
      tff.learning.templates.LearningAlgorithmState(
        stepped.result, sent.state, trained.state, summed.state, stepped.state
      )
    ),
    tff.federated_zip(
      collections.OrderedDict(
        distributor=sent.measurements,
        client_work=trained.measurements,
        aggregator=summed.measurements,
        finalizer=stepped.measurements,
        **further,
      )
    ),
  )


@dataclasses.dataclass(frozen=True)
class CohortRowsProcess:
  """A process whose rounds move only the cohort's rows, not the whole tables.

  Results equal those of `process`, bit for bit, in less time: moving a table of
  84 MB to the runtime and back took as long as the rest of a round of Ditto.
  """

  process: tff.learning.templates.LearningProcess
  next_with_rows: tff.Computation  # From `build_next_with_rows`.
  # The runtime cuts a cohort with more clients into parts, and then moves only
  # the cohort's rows anyway. 0 if the runtime never cuts cohorts.
  clients_per_part: int

  def initialize(self) -> Any:
    """Returns the state before the first round."""
    return self.process.initialize()

  def get_model_weights(self, state: Any) -> Any:
    """Returns the weights of the global model."""
    return self.process.get_model_weights(state)

  def next(self, state: Any, client_data: Sequence[Any]) -> Any:
    """Runs a round; returns its `state` and `metrics`."""
    if 0 < self.clients_per_part < len(client_data):
      return self.process.next(state, client_data)
    args = [state, client_data]
    return with_whole_tables(args, self.next_with_rows(*with_client_rows(args)))


@keras_state.preserve()
def build_next_with_rows(
  parts: RoundParts,
  aggregation: tff.templates.AggregationProcess,
  parameter: tff.Type,
) -> tff.Computation:
  """Builds a round in which each client gets its own rows.

  After the arguments of `next`, it takes an argument at clients: tables with
  the client's own row, or with no row before the client's first round.
  """
  work = parts.work.build_round()
  *_, own_type = work.type_signature.parameter

  @tff.federated_computation(*parameter, own_type)
  def next_fn(state: Any, client_data: Any, own: Any) -> Any:
    sent = send(parts, state)
    trained = work(state.client_work, sent.result, client_data, own)
    summed = aggregation.next(
      state.aggregator, trained.result.update, trained.result.update_weight
    )
    return end_round(parts, state, sent, trained, summed)

  return next_fn


def with_client_rows(args: Sequence[Any]) -> Sequence[Any]:
  """Converts the arguments of `next` to those of `next_with_rows`.

  The state's tables become empty; a list of each client's own rows is added.
  """
  given, data = args
  state = tff.structure.from_container(given, recursive=True)
  tables = _tables(state)
  no_rows = {
    name: collections.OrderedDict((k, c[:0]) for k, c in table.items())
    for name, table in tables.items()
  }
  client_work = tff.structure.update_struct(state.client_work, **no_rows)
  client_ids = [batches.client_id_of(d) for d in data]
  rows = {n: client_table.rows_of(t, client_ids) for n, t in tables.items()}
  return (
    tff.structure.update_struct(state, client_work=client_work),
    data,
    [
      collections.OrderedDict(zip(rows, own, strict=True))
      for own in zip(*rows.values(), strict=True)
    ],
  )


def with_whole_tables(args: Sequence[Any], last: Any) -> Any:
  """Returns a round's output with all clients' rows, not only the cohort's.

  `args` are the arguments of `next`, and `last` is the output with only the
  cohort's rows.
  """
  before = _tables(tff.structure.from_container(args[0], recursive=True))
  of_cohort = last.state.client_work
  client_work = collections.OrderedDict(
    [
      *of_cohort.items(),
      *(
        (n, client_table.with_rows_from(table, of_cohort[n]))
        for n, table in before.items()
      ),
    ]
  )
  return last._replace(state=last.state._replace(client_work=client_work))


CLIENT_ROWS_CONVERSIONS = phases.Conversions(
  with_client_rows, with_whole_tables, phases.never_retry
)


def _tables(state: tff.structure.Struct) -> Mapping[str, client_table.Table]:
  return {
    name: collections.OrderedDict(tff.structure.iter_elements(table))
    for name, table in tff.structure.iter_elements(state.client_work)
    if name != client_state.TRAINING
  }


def can_build_phases(parts: RoundParts) -> bool:
  """Returns whether these parts allow rounds in two phases."""
  return parts.work.has_phases and parts.factory.has_phases


@keras_state.preserve()
def build_phases(
  parts: RoundParts, parameter: tff.Type
) -> tuple[tff.Computation, tff.Computation]:
  """Builds the two phases of a round, see `tff_fair.runtime.phases`.

  After the data, the phases take the clients' state, if they keep any, and then
  the ids of clients to leave out. The last phase returns the round's `output`,
  and as `left_out` the ids of the clients whose training failed.
  """
  work = parts.work.build_phases()
  result_type: Any = work.train.type_signature.result.result.member
  sums = parts.factory.create_phases(
    result_type.update, result_type.update_weight
  )
  given = [*tff.structure.iter_elements(parameter)]
  if parts.work.persistent_state:
    *_, own_type = work.measure.type_signature.parameter
    given.append(("own", own_type))
  given.append(("left_out", two_phase.LEFT_OUT_TYPE))

  @tff.federated_computation(tff.StructType(given))
  def choose(args: Any) -> Any:
    state, *at_clients, left_out = args
    received = send(parts, state).result
    signals = tff.federated_map(
      sums.leave_out,
      (
        work.measure(state.client_work, received, *at_clients),
        tff.federated_broadcast(left_out),
      ),
    )
    return sums.choose(state.aggregator, signals)

  @tff.federated_computation(
    tff.StructType([*given, ("chosen", choose.type_signature.result)])
  )
  def train(args: Any) -> Any:
    state, *at_clients, _, chosen = args
    sent = send(parts, state)
    trained = work.train(
      state.client_work,
      sent.result,
      *at_clients,
      tff.federated_map(sums.signals, chosen),
    )
    summed, left_out = sums.add(
      state.aggregator,
      trained.result.update,
      trained.result.update_weight,
      chosen,
    )
    output = end_round(parts, state, sent, trained, summed)
    return collections.OrderedDict(output=output, left_out=left_out)

  return choose, train


def with_all_clients(args: Sequence[Any]) -> Sequence[Any]:
  """Returns the first phase's arguments if no client is to be left out."""
  return [*args, np.zeros([0], np.int64)]


def arguments_without_failed(
  first: Sequence[Any], last: Any
) -> Sequence[Any] | None:
  """Returns the first phase's arguments for another run without failed clients.

  `first` are the first phase's arguments so far, and `last` is the last phase's
  result. Returns `None` if no client failed.
  """
  if not len(last["left_out"]):
    return None
  *args, left_out = first
  return [*args, np.concatenate([left_out, last["left_out"]])]


def output_of(args: Sequence[Any], last: Any) -> Any:
  """Returns the round's output from `last`, the result of the last phase."""
  del args
  return last["output"]


TWO_PHASE_CONVERSIONS = phases.Conversions(
  with_all_clients, output_of, arguments_without_failed
)


def build_comparison_phases(
  parts: RoundParts,
  aggregation: comparison_sums.ComparingProcess,
  parameter: tff.Type,
) -> Sequence[tff.Computation]:
  """Builds a phase for each sum by which clients compare themselves."""
  work = parts.work.build().next
  last = aggregation.phases[-1]

  def phase(
    take_sum: tff.Computation, state: Any, data: Any, *before: Any
  ) -> Any:
    sent = send(parts, state)
    trained = work(state.client_work, sent.result, data)
    update, weight = trained.result.update, trained.result.update_weight
    summed = take_sum(state.aggregator, update, weight, *before)
    if take_sum is not last:
      return summed
    return end_round(parts, state, sent, trained, summed)

  return comparison_sums.build_phase_computations(
    tff.structure.iter_elements(parameter),
    [functools.partial(phase, take) for take in aggregation.phases],
  )


def with_phases(
  process: tff.learning.templates.LearningProcess,
  parts: RoundParts,
  aggregation: tff.templates.AggregationProcess,
) -> tff.learning.templates.LearningProcess:
  """Returns the process; its `next` has phases if `parts` allow phases."""
  parameter = process.next.type_signature.parameter
  kept = bool(parts.work.persistent_state)
  build_single_phase = functools.cache(
    lambda: build_next_with_rows(parts, aggregation, parameter)
  )
  single_phase = build_single_phase if kept else None
  if can_build_phases(parts):
    phased = phases.PhasedComputation.create(
      process.next,
      lambda: build_phases(parts, parameter),
      conversions=COMBINED_CONVERSIONS if kept else TWO_PHASE_CONVERSIONS,
      single_phase=single_phase,
    )
  elif kept:
    phased = phases.PhasedComputation.create(
      process.next,
      lambda: [build_single_phase()],
      conversions=CLIENT_ROWS_CONVERSIONS,
      single_phase=single_phase,
    )
  elif isinstance(aggregation, comparison_sums.ComparingProcess):
    sums = aggregation
    phased = phases.PhasedComputation.create(
      process.next, lambda: build_comparison_phases(parts, sums, parameter)
    )
  else:
    return process
  return phases.with_next(process, phased)


def _combined_arguments(args: Sequence[Any]) -> Sequence[Any]:
  return TWO_PHASE_CONVERSIONS.first_arguments(
    CLIENT_ROWS_CONVERSIONS.first_arguments(args)
  )


def _combined_result(args: Sequence[Any], last: Any) -> Any:
  return CLIENT_ROWS_CONVERSIONS.final_result(
    args, TWO_PHASE_CONVERSIONS.final_result(args, last)
  )


COMBINED_CONVERSIONS = phases.Conversions(
  _combined_arguments, _combined_result, TWO_PHASE_CONVERSIONS.retry_arguments
)
