"""A computation of the fuzz, and a call of it under both contexts."""

# TFF looks at the names of arguments: a lambda has them.
# ruff: noqa: PLW0108

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from benchmarks.fuzzing import Case, End, EscapeError, short
from benchmarks.fuzzing.computations import contexts

# How many clients there are, and of how many a part is; most are cheap.
_SIZES: Sequence[tuple[int, int | None]] = (
  *((0, None), (1, None), (2, None), (3, None), (5, None)),
  *((2, 1), (3, 1), (3, 2), (4, 3), (5, 2), (7, 3), (12, 1)),
  *((31, None), (32, None), (33, None), (70, None)),
)
_WEIGHTS = (3, 5, 5, 4, 4, *(5, 5, 5, 5, 5, 5, 2), 1, 1, 1.5, 1)


class DifferenceError(EscapeError):
  """A call ends otherwise than in the exact context.

  Attributes:
    way: What differs, in which family of computations.
  """

  def __init__(self, way: str, text: str) -> None:
    """Takes what differs, and how."""
    super().__init__(text)
    self.way = way


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
  """A computation, with its arguments.

  Attributes:
    room: The family it is of.
    comp: The computation, or a function that calls several.
    arguments: Draws its arguments, from the number of clients.
    options: Those of the contexts.
    holds: Whether a result is right, where it is random by design; `None` if
      both contexts return the same.
    effects: The file to which each call of a part of it appends a byte.
  """

  room: str
  comp: Callable[..., Any]
  arguments: Callable[[random.Random, int], Sequence[Any]]
  options: contexts.Options = contexts.PLAIN
  holds: Callable[[Sequence[Any], Any], bool] | None = None
  effects: BinaryIO | None = None


def cases(
  subject: Subject,
  rng: random.Random,
  both: contexts.Both,
  seed: int,
  num_calls: int,
) -> Iterator[Case]:
  """Yields calls of a computation."""
  for number in range(num_calls):
    num_clients, size = rng.choices(_SIZES, _WEIGHTS)[0]
    run = functools.partial(
      _run, subject, both, num_clients, size, rng.getrandbits(48)
    )
    name = f"seed {seed}, call {number}: {num_clients} clients in parts of"
    yield Case(room=subject.room, name=f"{name} {size}", run=run)


def _run(
  subject: Subject,
  both: contexts.Both,
  num_clients: int,
  size: int | None,
  seed: int,
) -> End:
  """Calls a computation in both contexts, and compares."""
  args = subject.arguments(random.Random(seed), num_clients)
  exact, other = both.call(
    lambda: subject.comp(*args),
    subject.options,
    clients_per_part=size,
    effects=subject.effects,
  )
  _compare(subject, args, exact, other, both.ways.cut)
  if exact.error is not None:
    same = type(exact.error) is type(other.error)
    return End.BOTH_FAIL if same else End.BOTH_FAIL_OTHERWISE
  if both.ways.cut:
    return End.CUT
  return End.ONE_GRAPH if both.ways.one_graph else End.EXECUTORS


def _compare(
  subject: Subject,
  args: Sequence[Any],
  exact: contexts.Outcome,
  other: contexts.Outcome,
  is_cut: bool,
) -> None:
  """Raises a `DifferenceError` if outcomes differ."""
  room = f"{subject.room}{', cut' if is_cut else ''}"
  about = f" {_of(subject.comp)}({short(args)})"
  if other.is_lost and not exact.is_lost:
    raise DifferenceError(f"{room}: worker lost", _error(other) + about)
  if exact.is_lost:
    return  # No fault of ours.
  if (exact.error is None) is not (other.error is None):
    way, error = (
      ("fails", other) if exact.error is None else ("does not fail", exact)
    )
    kind = type(error.error).__name__
    raise DifferenceError(f"{room}: {way}, {kind}", _error(error) + about)
  if exact.num_effects != other.num_effects:
    text = f"{other.num_effects} effects, not {exact.num_effects}"
    raise DifferenceError(f"{room}: effects", text + about)
  if exact.error is not None:
    return
  if subject.holds is not None:
    right = [subject.holds(args, x.value) for x in (exact, other)]
    if right == [True, False]:
      raise DifferenceError(f"{room}: wrong", short(other.value) + about)
    return
  found = next(
    contexts.differences(exact.value, other.value, rounds=is_cut), None
  )
  if found is not None:
    raise DifferenceError(f"{room}: value", found + about)


def _of(comp: Any) -> str:
  signature = getattr(comp, "type_signature", None)
  return "" if signature is None else str(signature)[:200]


def _error(outcome: contexts.Outcome) -> str:
  return short(str(outcome.error))


def traced(body: Callable[..., Any], *types: Any) -> tff.Computation:
  """Returns a federated computation of several arguments."""
  functions: Sequence[Callable[..., Any]] = (
    lambda: body(),
    lambda a: body(a),
    lambda a, b: body(a, b),
    lambda a, b, c: body(a, b, c),
    lambda a, b, c, d: body(a, b, c, d),
  )
  return tff.federated_computation(functions[len(types)], *types)


def member(index: int, of: Any) -> tff.Computation:
  """Returns a function to a member of a structure of a type."""
  return tff.tensorflow.computation(lambda x: x[index], tff.to_type(of))


def collected(value: tff.Value, dtype: Any) -> tff.Value:
  """Returns the clients' numbers, or texts, in one array, in their order."""
  row = tff.TensorType(dtype, [None])
  zeros = tff.tensorflow.computation(
    lambda: tf.zeros([0], tf.string if dtype is np.str_ else dtype)
  )
  append = tff.tensorflow.computation(
    lambda a, x: tf.concat([a, [x]], 0), [row, tff.TensorType(dtype)]
  )
  join = tff.tensorflow.computation(
    lambda a, b: tf.concat([a, b], 0), [row, row]
  )
  same = tff.tensorflow.computation(lambda a: a, row)
  return tff.federated_aggregate(value, zeros(), append, join, same)


def at_both(member: Any) -> tuple[tff.FederatedType, tff.FederatedType]:
  """Returns the types of values at the clients, and of one at the server."""
  return (
    tff.FederatedType(member, tff.CLIENTS),
    tff.FederatedType(member, tff.SERVER),
  )
