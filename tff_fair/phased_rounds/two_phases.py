"""Rounds in two phases: all clients measure, then all clients train.

  first:   the server broadcasts theta, clients evaluate it, and the rule
           chooses their coefficients
  second:  clients train, and scale their updates; the server sums and steps

No sum of a phase depends on another one of that phase. Each takes O(d) memory.
"""

from typing import Any

import tensorflow_federated as tff

from tff_fair.phased_rounds import round_parts


def can_build(parts: round_parts.RoundParts) -> bool:
  """Returns whether a process has such rounds."""
  return parts.work.has_phases and parts.factory.has_phases


def build(
  parts: round_parts.RoundParts, parameter: tff.Type
) -> tuple[tff.Computation, tff.Computation]:
  """Builds the two phases of a round.

  Args:
    parts: The parts of the process.
    parameter: The parameter of its `next`: state and data.

  Returns:
    The phases, as `tff_fair.phases.PhasedComputation` has them. Where clients
    keep something, they take what these keep, after the data.
  """
  work = parts.work.build_phases()
  result_type: Any = work.train.type_signature.result.result.member
  sums = parts.factory.create_phases(
    result_type.update, result_type.update_weight
  )
  given = [*tff.structure.iter_elements(parameter)]
  if parts.work.kept:
    *_, own_type = work.measure.type_signature.parameter
    given.append(("own", own_type))

  @tff.federated_computation(tff.StructType(given))
  def choose(args: Any) -> Any:
    state, *at_clients = args
    received = round_parts.send(parts, state).result
    signals = work.measure(state.client_work, received, *at_clients)
    return sums.choose(state.aggregator, signals)

  @tff.federated_computation(
    tff.StructType([*given, ("chosen", choose.type_signature.result)])
  )
  def train(args: Any) -> Any:
    state, *at_clients, chosen = args
    sent = round_parts.send(parts, state)
    trained = work.train(
      state.client_work,
      sent.result,
      *at_clients,
      tff.federated_map(sums.signals, chosen),
    )
    summed = sums.add(
      state.aggregator,
      trained.result.update,
      trained.result.update_weight,
      chosen,
    )
    return round_parts.end_round(parts, state, sent, trained, summed)

  return choose, train
