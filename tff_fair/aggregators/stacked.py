"""The stacked way to sum: the server collects all updates, then applies a rule.

  d = sum_k c_k Delta_k,  c = rule(signals, M)

Works for every rule, in one mergeable aggregate. Costs m * d memory at the
server, which sees each client's update.
"""

import collections
from typing import Any

import tensorflow_federated as tff

from tff_fair import types
from tff_fair.aggregators import memory as memory_lib
from tff_fair.aggregators import rule_application, scalars, single_aggregate
from tff_fair.kernels import gram as gram_lib
from tff_fair.kernels import stacking


def build_stacked(
  reader: scalars.ScalarReader, value_type: tff.Type, weight_type: tff.Type
) -> tff.templates.AggregationProcess:
  """Builds the process; see `tff_fair.aggregators.RuleFactory`.

  Args:
    reader: Reads the scalars the rule needs.
    value_type: The type of a client's update.
    weight_type: The type of its weight.

  Returns:
    A process whose result is a `RoundUpdate` of `value_type`.
  """
  rule = reader.rule
  update_specs = tff.types.type_to_tf_tensor_specs(value_type)
  row_spec = stacking.row_spec(update_specs)

  def zero() -> Any:
    return reader.empty(), stacking.empty_stack(row_spec)

  def prepare(client: Any) -> Any:
    row = reader.read(client["update"], client["weight"])
    update = stacking.flatten_update(client["update"])
    return row, update[: 1 - row.num_excluded]

  # One after the other, so nothing is done here that clients can do themselves.
  def accumulate(accumulator: Any, prepared: Any) -> Any:
    return (
      scalars.concat_rows(accumulator[0], prepared[0]),
      stacking.push(accumulator[1], prepared[1]),
    )

  def merge(first: Any, second: Any) -> Any:
    return (
      scalars.concat_rows(first[0], second[0]),
      stacking.merge(first[1], second[1]),
    )

  def initial_state() -> Any:
    if not rule.remembered_rounds:
      return rule.initialize()
    return collections.OrderedDict(
      rule=rule.initialize(),
      memory=memory_lib.empty(rule.remembered_rounds, row_spec),
    )

  def apply_rule(state: Any, accumulator: Any) -> Any:
    rows, stack = accumulator
    if not rule.remembered_rounds:
      updates = gram_lib.Columns(stacking.blocks(stack)).join()
      gram = None
      if rule.geometry is types.Geometry.GRAM:
        gram = gram_lib.gram_matrix(updates)
      output = rule_application.apply_rule(reader, rows, state, gram)
      direction = gram_lib.combine_rows(output.coefficients, updates)
    else:
      memory = state["memory"]
      matrix = stacking.rows(stack)
      remembered = [cohort.updates for cohort in memory.cohorts]
      gram = memory_lib.gram_with(
        memory, gram_lib.inner_products([matrix], remembered)
      )
      output = rule_application.apply_rule(
        reader, rows, state["rule"], gram, memory_lib.ids_and_ages(memory)
      )
      direction = gram_lib.combine_rows(
        output.coefficients, [matrix, *remembered]
      )
      cohort = memory_lib.RememberedCohort(rows.client_id, matrix)
      output = output._replace(
        state=collections.OrderedDict(
          rule=output.state, memory=memory_lib.remember(memory, cohort, gram)
        )
      )
    return rule_application.round_output(
      reader, rows, output, stacking.unflatten_update(direction, update_specs)
    )

  return single_aggregate.build_single_aggregate(
    value_type,
    weight_type,
    initial_state=initial_state,
    zero=zero,
    prepare=prepare,
    accumulate=accumulate,
    merge=merge,
    apply_rule=apply_rule,
  )
