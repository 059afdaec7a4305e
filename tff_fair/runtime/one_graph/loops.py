"""Adds the steps of a computation to one TensorFlow graph.

Loops over the clients compute the aggregates. Iterations overlap: several
clients work at the same time, but their values are added in the clients' order.
So sums equal those of TFF's own executors, bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission
from tff_fair.runtime.one_graph import client_values, inlining, steps

_COMPUTED_STEPS = steps.FunctionCall, steps.Zip, steps.Selection
# Values that clients keep between loops: the structure of one client's value,
# with a `tf.TensorArray` over the clients in place of each tensor.
_Arrays: TypeAlias = Any


class GraphBuilder:
  """Adds the steps of a computation to the current TensorFlow graph."""

  def __init__(
    self,
    plan: steps.Plan,
    arguments: Sequence[inlining.Value | client_values.ClientReader],
    num_clients: tf.Tensor,
    is_cancelled: tf.Variable,
    *,
    clients_at_a_time: int,
  ) -> None:
    """Takes a plan, and its arguments: server values and `ClientReader`s."""
    self._result = plan.result
    self._needed = plan.needed_steps
    self._num_clients = num_clients
    self._is_cancelled = is_cancelled
    self._clients_at_a_time = clients_at_a_time
    self._at_server: dict[steps.Step, inlining.Value] = {}
    # Functions that read a client's value of an argument or of an earlier loop.
    self._of_client: dict[steps.Step, client_values.ClientReader] = {}
    for step, argument in zip(plan.arguments, arguments, strict=True):
      (self._of_client if step.at_clients else self._at_server)[step] = argument

  def result(self) -> inlining.Value:
    """Adds all steps to the graph; returns the computation's result."""
    last = max((step.loops for step in self._needed), default=0)
    for number in range(last + 1):
      self._add_server_steps(number)
      if number < last:
        self._add_loop(number)
    return self._values(self._result)

  def _values(self, placed: steps.Placed) -> inlining.Value:
    if isinstance(placed, tuple):
      return tuple(map(self._values, placed))
    return self._at_server[placed]

  def _add_server_steps(self, loops: int) -> None:
    for step in self._needed:
      if (
        step.loops == loops
        and not step.at_clients
        and isinstance(step, _COMPUTED_STEPS)
      ):
        values = [self._at_server[source] for source in step.sources]
        self._at_server[step] = _compute_step(step, values)

  def _add_loop(self, number: int) -> None:
    """Adds the loop for all sums that wait for `number` earlier loops."""
    sums = [
      step
      for step in self._needed
      if isinstance(step, steps.Aggregation) and step.loops == number + 1
    ]
    kept = self._values_for_later_loops(number)
    num_clients = self._num_clients
    zeros = [self._at_server[step.sources[1]] for step in sums]
    arrays = [_arrays(step.type_spec, num_clients) for step in kept]
    accumulates = [inlining.function_of(step.function) for step in sums]

    def body(
      client: tf.Tensor,
      accumulators: Sequence[inlining.Value],
      arrays: Sequence[_Arrays],
    ) -> Any:
      value = self._client_values(client)
      totals = [
        add_client((accumulator, value(step.sources[0])))
        for step, add_client, accumulator in zip(
          sums, accumulates, accumulators, strict=True
        )
      ]
      written = [
        tf.nest.map_structure(
          lambda array, tensor: array.write(client, tensor),
          of_step,
          value(step),
        )
        for step, of_step in zip(kept, arrays, strict=True)
      ]
      return client + 1, totals, written

    _, totals, written = tf.while_loop(
      lambda client, *_: (client < num_clients) & ~self._is_cancelled,
      body,
      (tf.constant(0), zeros, arrays),
      shape_invariants=(
        tf.TensorShape([]),
        [_shapes(step.type_spec) for step in sums],
        tf.nest.map_structure(lambda _: tf.TensorShape(None), arrays),
      ),
      parallel_iterations=self._clients_at_a_time,
    )
    self._at_server.update(zip(sums, totals, strict=True))
    for step, of_step in zip(kept, written, strict=True):
      self._of_client[step] = functools.partial(_read, of_step)

  def _client_values(
    self, client: tf.Tensor
  ) -> Callable[[steps.Step], inlining.Value]:
    """Returns a function from a step to the step's value for a client."""

    @functools.cache
    def value(step: steps.Step) -> inlining.Value:
      if not step.at_clients:
        return self._at_server[step]
      if isinstance(step, steps.Broadcast):
        return self._at_server[step.sources[0]]
      if step in self._of_client:
        return self._of_client[step](client)
      assert isinstance(step, _COMPUTED_STEPS)
      return _compute_step(step, [*map(value, step.sources)])

    return value

  def _values_for_later_loops(self, number: int) -> Sequence[steps.Step]:
    """Returns the steps of loop `number` whose values later loops need."""
    later = [s for s in self._needed if s.at_clients and s.loops > number]
    taken = dict.fromkeys(source for step in later for source in step.sources)
    return [
      step
      for step in taken
      if step.at_clients
      and step.loops == number
      and not isinstance(step, (steps.Argument, steps.Broadcast))
    ]


def _compute_step(
  step: steps.FunctionCall | steps.Zip | steps.Selection,
  values: Sequence[inlining.Value],
) -> inlining.Value:
  if isinstance(step, steps.Zip):
    return tuple(values)
  if isinstance(step, steps.Selection):
    return values[0][step.index]
  function = inlining.function_of(step.function)
  return function(*values) if callable(function) else function  # A literal.


def _read(arrays: _Arrays, client: tf.Tensor) -> inlining.Value:
  return tf.nest.map_structure(lambda array: array.read(client), arrays)


def _arrays(type_spec: tff.Type, num_clients: tf.Tensor) -> _Arrays:
  leaves = inlining.leaf_types(type_spec)
  if not all(isinstance(leaf, tff.TensorType) for leaf in leaves):
    raise admission.NotAdmittedError("data that clients keep")
  arrays = [
    tf.TensorArray(
      inlining.dtype_of(leaf),
      num_clients,
      infer_shape=False,
      clear_after_read=False,
    )
    for leaf in leaves
  ]
  return inlining.unflatten(arrays, type_spec)


def _shapes(type_spec: tff.Type) -> Any:
  leaves = inlining.leaf_types(type_spec)
  return inlining.unflatten(
    (tf.TensorShape(leaf.shape) for leaf in leaves), type_spec
  )
