"""Adds the steps of a computation to one TensorFlow graph.

Each aggregate is a loop over the clients. Iterations overlap: several clients
work at the same time, but their values are added in the clients' order. So sums
equal those of TFF's own executors, bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission
from tff_fair.runtime.one_graph import client_values, inlining, steps

_COMPUTED_STEPS = steps.FunctionCall, steps.Zip, steps.Selection
# An array for each tensor of a value that clients keep between loops.
_Arrays = Sequence[tf.TensorArray]


class Graph:
  """The steps of a computation that are in the graph so far."""

  def __init__(
    self,
    plan: steps.Plan,
    arguments: Sequence[inlining.Value | client_values.ClientReader],
    num_clients: tf.Tensor,
    is_cancelled: tf.Variable,
    *,
    clients_at_a_time: int,
  ) -> None:
    """Takes the computation and its arguments: values, or clients' readers."""
    self._result = plan.result
    self._needed = plan.needed_steps
    self._num_clients = num_clients
    self._is_cancelled = is_cancelled
    self._clients_at_a_time = clients_at_a_time
    self.at_server: dict[steps.Step, inlining.Value] = {}
    # Arguments at clients, and values that clients keep for a later loop.
    self.of_client: dict[steps.Step, client_values.ClientReader] = {}
    for step, argument in zip(plan.arguments, arguments, strict=True):
      (self.of_client if step.at_clients else self.at_server)[step] = argument

  def result(self) -> inlining.Value:
    """Adds all steps; returns the result."""
    last = max((step.loops for step in self._needed), default=0)
    for number in range(last + 1):
      self._add_server_steps(number)
      if number < last:
        self._add_loop(number)
    return self._values(self._result)

  def _values(self, placed: steps.Placed) -> inlining.Value:
    if isinstance(placed, tuple):
      return tuple(map(self._values, placed))
    return self.at_server[placed]

  def _add_server_steps(self, loops: int) -> None:
    for step in self._needed:
      if (
        step.loops == loops
        and not step.at_clients
        and isinstance(step, _COMPUTED_STEPS)
      ):
        values = [self.at_server[source] for source in step.sources]
        self.at_server[step] = _compute_step(step, values)

  def _add_loop(self, number: int) -> None:
    """Adds the loop over the clients for all sums whose inputs are known."""
    sums = [
      step
      for step in self._needed
      if isinstance(step, steps.Aggregation) and step.loops == number + 1
    ]
    kept = self._values_for_later_loops(number)
    num_clients = self._num_clients
    zeros = [tf.nest.flatten(self.at_server[s.sources[1]]) for s in sums]
    arrays = [_arrays(step.type_spec, num_clients) for step in kept]
    accumulates = [inlining.function_of(s.function) for s in sums]

    def body(
      client: tf.Tensor,
      accumulators: Sequence[Sequence[tf.Tensor]],
      arrays: Sequence[_Arrays],
    ) -> Any:
      value = self._client_values(client)
      return (
        client + 1,
        [
          tf.nest.flatten(
            add_client(
              (
                inlining.unflatten(accumulator, step.type_spec),
                value(step.sources[0]),
              )
            )
          )
          for step, add_client, accumulator in zip(
            sums, accumulates, accumulators, strict=True
          )
        ],
        [
          [
            array.write(client, tensor)
            for array, tensor in zip(
              of_step, tf.nest.flatten(value(step)), strict=True
            )
          ]
          for step, of_step in zip(kept, arrays, strict=True)
        ],
      )

    _, totals, written = tf.while_loop(
      lambda client, *_: (client < num_clients) & ~self._is_cancelled,
      body,
      (tf.constant(0), zeros, arrays),
      shape_invariants=(
        tf.TensorShape([]),
        [_shapes(step.type_spec) for step in sums],
        [[tf.TensorShape(None)] * len(of_step) for of_step in arrays],
      ),
      parallel_iterations=self._clients_at_a_time,
    )
    for step, total in zip(sums, totals, strict=True):
      self.at_server[step] = inlining.unflatten(total, step.type_spec)
    for kept_step, of_step in zip(kept, written, strict=True):
      self.of_client[kept_step] = _reader(of_step, kept_step.type_spec)

  def _client_values(
    self, client: tf.Tensor
  ) -> Callable[[steps.Step], inlining.Value]:
    """Returns a function that returns a client's value of a step."""

    @functools.cache
    def value(step: steps.Step) -> inlining.Value:
      if not step.at_clients:
        return self.at_server[step]
      if isinstance(step, steps.Broadcast):
        return self.at_server[step.sources[0]]
      if step in self.of_client:
        return self.of_client[step](client)
      assert isinstance(step, _COMPUTED_STEPS)
      return _compute_step(step, [*map(value, step.sources)])

    return value

  def _values_for_later_loops(self, number: int) -> Sequence[steps.Step]:
    """Returns the clients' values that later loops need from this one."""
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


def _reader(arrays: _Arrays, type_spec: tff.Type) -> client_values.ClientReader:
  def of_client(client: tf.Tensor) -> inlining.Value:
    return inlining.unflatten((a.read(client) for a in arrays), type_spec)

  return of_client


def _arrays(type_spec: tff.Type, num_clients: tf.Tensor) -> _Arrays:
  return [
    tf.TensorArray(
      _dtype(leaf), num_clients, infer_shape=False, clear_after_read=False
    )
    for leaf in inlining.leaf_types(type_spec)
  ]


def _dtype(leaf: tff.Type) -> Any:
  if not isinstance(leaf, tff.TensorType):
    raise admission.NotAdmittedError("data that clients keep")
  return inlining.dtype_of(leaf)


def _shapes(type_spec: tff.Type) -> list[tf.TensorShape]:
  return [tf.TensorShape(leaf.shape) for leaf in inlining.leaf_types(type_spec)]
