"""Rounds in which only the rows of a cohort travel, of what clients keep.

The tables stay with the program. Each client gets its own rows, as it gets its
data. What comes back are the tables of the cohort. So m d floats travel each
way, in the place of T d for each call.
"""

import collections
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow_federated as tff

from tff_fair.client_works import batches, client_table
from tff_fair.rounds import round_parts
from tff_fair.runtime import phases

# In the state of client work in which clients keep something, all but this is
# tables.
_TRAINING = "training"


@dataclasses.dataclass(frozen=True)
class OwnRowsProcess:
  """A process in which the rows of a cohort alone travel in every round.

  Results are those of the process, bit for bit, and sooner: to move a table of
  84 MB there and back took as long as the rest of a round of Ditto.

  Attributes:
    process: The process.
    next_of_own: A round as `build` returns it.
    clients_per_part: The most clients of a part; 0 never cuts. The runtime cuts
      larger cohorts, and then moves no other rows anyway.
  """

  process: tff.learning.templates.LearningProcess
  next_of_own: tff.Computation
  clients_per_part: int

  def initialize(self) -> Any:
    """Returns the state before the first round."""
    return self.process.initialize()

  def set_model_weights(self, state: Any, weights: Any) -> Any:
    """Returns the state with another model."""
    return self.process.set_model_weights(state, weights)

  def next(self, state: Any, client_data: Sequence[Any]) -> Any:
    """Runs a round; returns its `state` and `metrics`."""
    if 0 < self.clients_per_part < len(client_data):
      return self.process.next(state, client_data)
    args = [state, client_data]
    return with_whole_tables(args, self.next_of_own(*with_own_rows(args)))


def build(
  parts: round_parts.RoundParts, parameter: tff.Type
) -> tff.Computation:
  """Builds a round in which each client gets its own rows.

  Args:
    parts: The parts of the process.
    parameter: The parameter of its `next`: state and data.

  Returns:
    The same as `next`, with one argument more, at clients: tables that have a
    client's rows, if it has some.
  """
  work = parts.work.build_round_of_own()
  *_, own_type = work.type_signature.parameter
  result_type: Any = work.type_signature.result.result.member
  aggregation = parts.factory.create_for_rounds(
    result_type.update, result_type.update_weight, updates_checked=True
  )

  @tff.federated_computation(*parameter, own_type)
  def next_fn(state: Any, client_data: Any, own: Any) -> Any:
    sent = round_parts.send(parts, state)
    trained = work(state.client_work, sent.result, client_data, own)
    summed = aggregation.next(
      state.aggregator, trained.result.update, trained.result.update_weight
    )
    return round_parts.end_round(parts, state, sent, trained, summed)

  return next_fn


def with_own_rows(args: Sequence[Any]) -> Sequence[Any]:
  """Returns the arguments of such a round.

  Args:
    args: Those of `next`, state and data.
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
  """Returns the result of `next`, with the rows of all clients.

  Args:
    args: The arguments of `next`.
    last: The result of the round, whose tables are those of the cohort.
  """
  before = _tables(tff.structure.from_container(args[0], recursive=True))
  of_cohort = last.state.client_work
  client_work = collections.OrderedDict(
    [
      *of_cohort.items(),
      *(
        (n, client_table.put_in(table, of_cohort[n]))
        for n, table in before.items()
      ),
    ]
  )
  return last._replace(state=last.state._replace(client_work=client_work))


ENDS = phases.Ends(with_own_rows, with_whole_tables, phases.once)


def _tables(state: tff.structure.Struct) -> Mapping[str, client_table.Table]:
  return {
    name: collections.OrderedDict(tff.structure.iter_elements(table))
    for name, table in tff.structure.iter_elements(state.client_work)
    if name != _TRAINING
  }
