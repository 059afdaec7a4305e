"""Rounds with personal models in which only the rows of a cohort travel.

The table of all personal models stays with the program. Each client gets its
own row, as it gets its data. What comes back is the table of the cohort. So m d
floats travel each way, in the place of T d for each call.
"""

import collections
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works import batches, personal_table
from tff_fair.phased_rounds import round_parts


def build(
  parts: round_parts.RoundParts, parameter: tff.Type
) -> tff.Computation:
  """Builds a round in which each client gets its own row.

  Args:
    parts: The parts of the process.
    parameter: The parameter of its `next`: state and data.

  Returns:
    The same as `next`, with one argument more, at clients: a table that has a
    client's row, if it has one.
  """
  work = parts.work.build_personal_round()
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
  table = _table(state)
  nobody = collections.OrderedDict((k, c[:0]) for k, c in table.items())
  client_work = tff.structure.update_struct(state.client_work, personal=nobody)
  return (
    tff.structure.update_struct(state, client_work=client_work),
    data,
    personal_table.rows_of(table, [batches.client_id_of(d) for d in data]),
  )


def with_whole_table(args: Sequence[Any], last: Any) -> Any:
  """Returns the result of `next`, with the rows of all clients.

  Args:
    args: The arguments of `next`.
    last: The result of the round, whose table is that of the cohort.
  """
  before = _table(tff.structure.from_container(args[0], recursive=True))
  of_cohort = last.state.client_work["personal"]
  table = personal_table.updated(
    before, of_cohort["client_id"], [of_cohort["weights"]]
  )
  personal = tf.nest.map_structure(lambda column: column.numpy(), table)
  client_work = collections.OrderedDict(
    [*last.state.client_work.items(), ("personal", personal)]
  )
  return last._replace(state=last.state._replace(client_work=client_work))


def _table(state: tff.structure.Struct) -> personal_table.Table:
  personal = state.client_work.personal
  return collections.OrderedDict(tff.structure.iter_elements(personal))
