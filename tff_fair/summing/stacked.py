"""Stacked aggregation: the server collects all updates, then applies a rule.

  d = sum_k c_k Delta_k,  c = rule(signals, M)

M is the updates' Gram matrix. This works for every rule, in one mergeable
aggregate. The server sees all m updates, of d numbers each, in m * d memory.
"""

import collections
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.kernels import gram as gram_lib, stacking
from tff_fair.summing import (
  client_scalars,
  memory as memory_lib,
  rule_application,
  single_aggregate,
)
from tff_fair.summing.aggregation_kinds import UPDATES

# The scalars and the updates of clients collected so far, in the same order.
CollectedClients: TypeAlias = tuple[client_scalars.ScalarRows, stacking.Stack]


def build_stacked(
  reader: client_scalars.ScalarReader,
  value_type: tff.Type,
  weight_type: tff.Type,
  *,
  certificate: bool = False,
  tape: bool | str = False,
) -> tff.templates.AggregationProcess:
  """Builds the process of a `RuleFactory` that collects the updates.

  With `certificate`, the server computes M even if the rule does not need M.
  """
  rule = reader.rule
  needs_gram = certificate or rule.geometry is types.Geometry.GRAM
  update_specs = tff.types.type_to_tf_tensor_specs(value_type)
  row_spec = stacking.row_spec(update_specs)

  def zero() -> CollectedClients:
    return reader.empty(), stacking.empty_stack(row_spec)

  def prepare(
    client: single_aggregate.Client,
  ) -> tuple[client_scalars.ScalarRows, tf.Tensor]:
    row = reader.read(client["update"], client["weight"])
    update = stacking.flatten_update(client["update"])
    return row, update[: 1 - row.num_excluded]

  def initial_state() -> types.TensorStructure:
    if not rule.remembered_rounds:
      return rule.initialize()
    return collections.OrderedDict(
      rule=rule.initialize(),
      memory=memory_lib.empty(rule.remembered_rounds, row_spec),
    )

  return single_aggregate.build_single_aggregate(
    value_type,
    weight_type,
    initial_state=initial_state,
    zero=zero,
    prepare=prepare,
    accumulate=_accumulate,
    merge=_merge,
    apply_rule=lambda state, collected: _round_output(
      reader, collected, state, needs_gram, tape, update_specs
    ),
  )


# The server calls this for one client after the other, so `prepare`, which runs
# in parallel, does as much as it can.
def _accumulate(
  collected: CollectedClients,
  prepared: tuple[client_scalars.ScalarRows, tf.Tensor],
) -> CollectedClients:
  return (
    client_scalars.concat_rows(collected[0], prepared[0]),
    stacking.push(collected[1], prepared[1]),
  )


def _merge(
  first: CollectedClients, second: CollectedClients
) -> CollectedClients:
  return (
    client_scalars.concat_rows(first[0], second[0]),
    stacking.merge(first[1], second[1]),
  )


def _round_output(
  reader: client_scalars.ScalarReader,
  collected: CollectedClients,
  state: types.TensorStructure,
  needs_gram: bool,
  tape: bool | str,
  update_specs: types.TensorStructure,
) -> rule_application.RoundOutput:
  """Returns the state, the result and the measurements of a round."""
  if reader.rule.remembered_rounds:
    output, direction = _apply_with_memory(
      reader, *collected, state, bool(tape)
    )
  else:
    output, direction = _apply(
      reader, *collected, state, needs_gram, bool(tape)
    )
  rows, stack = collected
  if tape == UPDATES:
    from tff_fair.summing import tape as tape_lib  # noqa: PLC0415  Few need it.

    updates = tape_lib.record_updates(
      rows.client_id, stacking.rows(stack), direction
    )
    output = output._replace(
      measurements=collections.OrderedDict(output.measurements, **updates)
    )
  return rule_application.round_output(
    reader, rows, output, stacking.unflatten_update(direction, update_specs)
  )


def _apply(
  reader: client_scalars.ScalarReader,
  rows: client_scalars.ScalarRows,
  stack: stacking.Stack,
  state: types.TensorStructure,
  needs_gram: bool,
  tape: bool,
) -> tuple[types.RuleOutput, tf.Tensor]:
  """Applies a rule without memory; returns its output and the direction d."""
  updates = gram_lib.Columns(stacking.blocks(stack)).join()
  gram = gram_lib.gram_matrix(updates) if needs_gram else None
  output = rule_application.apply_rule(reader, rows, state, gram, tape=tape)
  return output, gram_lib.combine_rows(output.coefficients, updates)


def _apply_with_memory(
  reader: client_scalars.ScalarReader,
  rows: client_scalars.ScalarRows,
  stack: stacking.Stack,
  state: Any,
  tape: bool,
) -> tuple[types.RuleOutput, tf.Tensor]:
  """Applies a rule with memory; returns its output and the direction d."""
  memory = state["memory"]
  matrix = stacking.rows(stack)
  remembered = [cohort.updates for cohort in memory.cohorts]
  gram = memory_lib.gram_with(
    memory, gram_lib.inner_products([matrix], remembered)
  )
  output = rule_application.apply_rule(
    reader,
    rows,
    state["rule"],
    gram,
    memory_lib.ids_and_ages(memory),
    tape=tape,
  )
  direction = gram_lib.combine_rows(output.coefficients, [matrix, *remembered])
  cohort = memory_lib.RememberedCohort(rows.client_id, matrix)
  new_state = collections.OrderedDict(
    rule=output.state, memory=memory_lib.remember(memory, cohort, gram)
  )
  return output._replace(state=new_state), direction
