"""Random programs: intrinsics one after the other, of random functions."""

from __future__ import annotations

import collections
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow_federated as tff

from benchmarks.fuzzing.computations import functions, values
from benchmarks.fuzzing.computations.subject import Subject, traced

_MOST_STEPS = 7


def subject(rng: random.Random) -> Subject:
  """Draws a program.

  Raises:
    Exception: If TFF does not take it, of many classes.
  """
  dtypes = rng.choice(
    [values.DTYPES, [np.float32], [np.float32, np.int32], values.NUMBERS]
  )
  types = [_parameter(rng, dtypes) for _ in range(rng.randint(1, 3))]
  if not any(t.placement is tff.CLIENTS and not t.all_equal for t in types):
    types.append(
      tff.FederatedType(values.member_type(rng, dtypes), tff.CLIENTS)
    )
  comp = _Program(rng).traced(types)
  is_wild = rng.random() < 0.4

  def arguments(rng: random.Random, num_clients: int) -> list[Any]:
    return [_argument(rng, t, num_clients, is_wild) for t in types]

  return Subject(
    room=f"program{', wild' if is_wild else ''}", comp=comp, arguments=arguments
  )


def _parameter(rng: random.Random, dtypes: Any) -> tff.FederatedType:
  placement = rng.choice([tff.CLIENTS, tff.CLIENTS, tff.SERVER])
  member = values.member_type(
    rng, dtypes, sequences=placement is tff.CLIENTS and rng.random() < 0.5
  )
  all_equal = placement is tff.SERVER or rng.random() < 0.07
  return tff.FederatedType(member, placement, all_equal)


def _argument(
  rng: random.Random,
  type_spec: tff.FederatedType,
  num_clients: int,
  is_wild: bool,
) -> Any:
  if type_spec.all_equal:
    return values.value(rng, type_spec.member, is_wild=is_wild)
  return [
    values.value(rng, type_spec.member, is_wild=is_wild)
    for _ in range(num_clients)
  ]


class _Program:
  """A program in the making."""

  def __init__(self, rng: random.Random) -> None:
    self._rng = rng
    self._pool: list[Any] = []

  def traced(self, types: list[tff.FederatedType]) -> tff.Computation:
    def program(*args: Any) -> Any:
      self._pool = [*args]
      for _ in range(self._rng.randint(1, _MOST_STEPS)):
        self._step()
      return self._result()

    return traced(program, *types)

  def _result(self) -> Any:
    at_server = self._of(tff.SERVER)
    # A result at clients makes no graph, and cannot be cut.
    pool = at_server if at_server and self._rng.random() < 0.8 else self._pool
    chosen = [
      self._rng.choice(pool[-4:]) for _ in range(self._rng.randint(1, 3))
    ]
    # As the last sum, mostly, since that is what programs are for.
    names = ["z", "a", "federated_x"]
    pairs = [*zip(names, chosen, strict=False)]
    return self._rng.choice(
      [
        lambda: chosen[0],
        lambda: tuple(chosen),
        lambda: collections.OrderedDict(pairs),
        lambda: values.Pair(chosen[0], chosen[-1]),
        lambda: values.Attributes(chosen[0], [chosen[-1]]),
      ]
    )()

  def _of(self, placement: Any) -> list[Any]:
    return [v for v in self._pool if v.type_signature.placement is placement]

  def _step(self) -> None:
    steps: list[Callable[[], Any]] = [self._value]
    if self._of(tff.CLIENTS):
      steps += [self._map_clients] * 3 + [self._sum] * 4
    if self._of(tff.SERVER):
      steps += [self._map_server] * 3 + [self._broadcast] * 2
    self._pool.append(self._rng.choice(steps)())

  def _chosen(self, placement: Any) -> Any:
    """Returns a value at a place: one of the pool, or several of them."""
    pool = self._of(placement)
    num = self._rng.choice([1, 1, 2, 3])
    if num == 1:
      return self._rng.choice(pool[-3:])
    return tff.federated_zip(tuple(self._rng.choice(pool) for _ in range(num)))

  def _mapped(self, value: Any) -> Any:
    function = functions.function(self._rng, value.type_signature.member)
    if self._rng.random() < 0.2:  # In a federated computation of its own.

      @tff.federated_computation(value.type_signature)
      def inner(x: Any) -> Any:
        return tff.federated_map(function, x)

      return inner(value)
    return tff.federated_map(function, value)

  def _map_clients(self) -> Any:
    return self._mapped(self._chosen(tff.CLIENTS))

  def _map_server(self) -> Any:
    return self._mapped(self._chosen(tff.SERVER))

  def _broadcast(self) -> Any:
    return tff.federated_broadcast(self._rng.choice(self._of(tff.SERVER)))

  def _value(self) -> Any:
    placement = self._rng.choice([tff.CLIENTS, tff.SERVER])
    if self._rng.random() < 0.5:
      number = self._rng.choice(
        [np.float32(2.5), np.int32(3), np.str_("v"), np.bool_(True)]
      )
      return tff.federated_value(number, placement)
    return tff.federated_eval(functions.constant(self._rng), placement)

  def _sum(self) -> Any:
    value = self._chosen(tff.CLIENTS)
    if not _is_of_tensors(value.type_signature.member):
      value = self._mapped(value)
    kinds: list[Callable[[Any], Any]] = [
      *[tff.federated_sum] * 4,
      tff.federated_mean,
      tff.federated_min,
      tff.federated_max,
      self._aggregate,
      self._aggregate,
      self._weighted_mean,
    ]
    for kind in self._rng.sample(kinds, len(kinds)):
      try:
        return kind(value)
      except (TypeError, ValueError, NotImplementedError):
        continue
    return self._aggregate(value)

  def _weighted_mean(self, value: Any) -> Any:
    weight = tff.federated_map(functions.weight(value), value)
    return tff.federated_mean(value, weight)

  def _aggregate(self, value: Any) -> Any:
    return tff.federated_aggregate(
      value, *functions.aggregation(self._rng, value.type_signature.member)
    )


def _is_of_tensors(member: tff.Type) -> bool:
  has_tensors = tff.types.contains(
    member, lambda t: isinstance(t, tff.TensorType)
  )
  return has_tensors and not tff.types.contains(
    member, lambda t: isinstance(t, tff.SequenceType)
  )
