"""Rounds in two phases: all clients measure, then all clients train.

  first:   the server broadcasts theta, clients evaluate it, and the rule
           chooses their coefficients
  second:  clients train, and scale their updates; the server sums and steps

No sum of a phase depends on another one of that phase. Each takes O(d) memory.
Clients that count in the first phase, and in the second do not, are left out
when both run once more: a round with such a client is the round without it.
"""

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow_federated as tff

from tff_fair.rounds import round_parts
from tff_fair.runtime import phases
from tff_fair.summing import sum_phases


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
    The phases, as `tff_fair.runtime.phases.PhasedComputation` has them. Where
    clients keep something, they take what these keep, after the data; then the
    ids of clients that are left out. The last one's result has the `output`
    of the round, and the ids of those that are to be left out, too,
    `left_out`.
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
  given.append(("left_out", sum_phases.LEFT_OUT))

  @tff.federated_computation(tff.StructType(given))
  def choose(args: Any) -> Any:
    state, *at_clients, left_out = args
    received = round_parts.send(parts, state).result
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
    sent = round_parts.send(parts, state)
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
    output = round_parts.end_round(parts, state, sent, trained, summed)
    return collections.OrderedDict(output=output, left_out=left_out)

  return choose, train


def with_all_clients(args: Sequence[Any]) -> Sequence[Any]:
  """Returns the arguments of the first phase, which leaves out no client."""
  return [*args, np.zeros([0], np.int64)]


def without_those_that_failed(
  first: Sequence[Any], last: Any
) -> Sequence[Any] | None:
  """Returns the arguments with which the phases run once more, if they do.

  Args:
    first: Those of the first phase.
    last: The result of the last phase.
  """
  if not len(last["left_out"]):
    return None
  *args, left_out = first
  return [*args, np.concatenate([left_out, last["left_out"]])]


def output_of(args: Sequence[Any], last: Any) -> Any:
  """Returns the output of the round, from the result of the last phase."""
  del args
  return last["output"]


ENDS = phases.Ends(with_all_clients, output_of, without_those_that_failed)
