"""Families of computations, each about one thing that may go wrong.

The cases of `meaning_test.py` are about others.
"""

# TFF looks at the names of arguments: a lambda has them.
# ruff: noqa: PLW0108

from __future__ import annotations

import random
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tests.fuzz import values
from tests.fuzz.programs import traced
from tests.runtime import side_by_side
from tests.runtime.side_by_side import Subject

_SECURE = side_by_side.Options(simulate_secure_sums=True)


def _numbers(rng: random.Random, type_spec: tff.Type, num: int) -> list[Any]:
  return [values.value(rng, type_spec) for _ in range(num)]


def secure(rng: random.Random) -> Subject:
  """Secure sums, in the clear."""
  dtype = rng.choice([np.int32, np.int64])
  kind = rng.choice(["sum", "bitwidth", "modular", "factory", "select"])
  options = _SECURE if rng.random() < 0.8 else side_by_side.PLAIN
  limit = rng.choice([4, 9, 20])
  factories = {
    "modular": lambda: tff.aggregators.SecureModularSumFactory(limit),
    "factory": lambda: tff.aggregators.SecureSumFactory(limit, 0),
  }

  def body(value: Any, at_server: Any) -> Any:
    if kind == "sum":
      total = tff.federated_secure_sum(value, dtype(limit))
    elif kind == "bitwidth":
      total = tff.federated_secure_sum_bitwidth(value, dtype(5))
    elif kind in factories:
      process = factories[kind]().create(value.type_signature.member)
      total = process.next(process.initialize(), value)
    else:
      total = tff.federated_sum(value)
    return total, tff.federated_sum(value), at_server

  return Subject(
    room="secure",
    comp=traced(body, *at_both(dtype)),
    options=options,
    arguments=lambda rng, n: [
      [np.asarray(rng.randint(0, 10), dtype) for _ in range(n)],
      dtype(3),
    ],
  )


def selected(rng: random.Random) -> Subject:
  """Slices that clients select from a value of the server."""
  num_keys = rng.choice([1, 3])
  is_secure = rng.random() < 0.3
  returns_clients = rng.random() < 0.2
  table_type = tff.TensorType(np.float32, [8])
  select = tff.tensorflow.computation(
    lambda value, key: tf.gather(value, key), [table_type, np.int32]
  )

  @tff.tensorflow.computation(tff.SequenceType(np.float32))
  def total(data: Any) -> Any:
    @tf.function
    def add(data: Any) -> Any:
      found = tf.constant(0.0)
      for x in data:
        found = found * 2 + x
      return found

    return add(data)

  kind = tff.federated_secure_select if is_secure else tff.federated_select

  def body(keys: Any, table: Any, most: Any) -> Any:
    slices = kind(keys, most, table, select)
    if returns_clients:
      return slices
    return tff.federated_sum(tff.federated_map(total, slices)), table

  types = (
    tff.FederatedType(tff.TensorType(np.int32, [num_keys]), tff.CLIENTS),
    tff.FederatedType(table_type, tff.SERVER),
    tff.FederatedType(np.int32, tff.SERVER),
  )
  return Subject(
    room=f"{'secure ' if is_secure else ''}select",
    comp=traced(body, *types),
    options=_SECURE if is_secure else side_by_side.PLAIN,
    arguments=lambda rng, n: [
      [
        np.array([rng.randint(0, 8 if i == 0 else 7)] * num_keys, np.int32) % 8
        for i in range(n)
      ],
      np.arange(8, dtype=np.float32),
      np.int32(rng.choice([7, 7, 3])),
    ],
  )


def all_equal(rng: random.Random) -> Subject:
  """Values of clients that are equal, from arguments and from the server."""
  kind = rng.choice(["argument", "value", "eval", "broadcast", "rows"])
  number = np.float32(1.5)
  give = tff.tensorflow.computation(lambda: tf.constant(number))
  double = tff.tensorflow.computation(lambda x: x * 2, np.float32)

  def body(value: Any, at_server: Any, equal: Any) -> Any:
    if kind == "value":
      equal = tff.federated_value(number, tff.CLIENTS)
    elif kind == "eval":
      equal = tff.federated_eval(give, tff.CLIENTS)
    elif kind == "broadcast":
      equal = tff.federated_broadcast(at_server)
    total = tff.federated_sum(tff.federated_map(double, equal))
    results = [total, tff.federated_mean(value), tff.federated_sum(equal)]
    if kind == "rows":
      results += [equal, tff.federated_broadcast(at_server), value]
    return tuple(results)

  equal_type = tff.FederatedType(
    np.float32, tff.CLIENTS, all_equal=rng.random() < 0.5
  )

  def arguments(rng: random.Random, num: int) -> list[Any]:
    row = tff.TensorType(np.float32)
    last = np.float32(3) if equal_type.all_equal else _numbers(rng, row, num)
    return [_numbers(rng, row, num), np.float32(2), last]

  return Subject(
    room="all equal",
    comp=traced(body, *at_both(np.float32), equal_type),
    arguments=arguments,
  )


def without_clients(rng: random.Random) -> Subject:
  """Computations that take no value of clients, or nothing at all."""
  num = rng.choice([0, 1, 3, 40])
  give = tff.tensorflow.computation(lambda: tf.constant(2.0))
  kind = rng.choice(["server", "nothing", "unplaced", "tensorflow"])

  def results(state: Any) -> Any:
    sent = tff.federated_broadcast(state)
    return (
      tff.federated_sum(tff.federated_eval(give, tff.CLIENTS)),
      tff.federated_mean(sent) if rng.random() < 0.5 else state,
      tff.federated_eval(give, tff.CLIENTS),
      sent,
      tff.federated_sum(tff.federated_value(np.int32(1), tff.CLIENTS)),
    )[rng.choice([0, 1, 2]) :]

  number = np.float32(rng.choice([1, np.nan, -0.0]))
  if kind == "server":
    comp: Any = traced(results, tff.FederatedType(np.float32, tff.SERVER))
  elif kind == "nothing":
    comp = traced(lambda: results(tff.federated_value(number, tff.SERVER)))
  elif kind == "unplaced":
    comp = traced(
      lambda x: results(tff.federated_value(x, tff.SERVER)), np.float32
    )
  else:
    comp = tff.tensorflow.computation(lambda x: (x / 3, {"y": x}), np.float32)
  return Subject(
    room="without clients",
    comp=comp,
    options=side_by_side.Options(default_num_clients=num),
    arguments=lambda _, __: [] if kind == "nothing" else [number],
  )


def member(index: int, of: Any) -> tff.Computation:
  """Returns a function to a member of a structure of a type."""
  return tff.tensorflow.computation(lambda x: x[index], tff.to_type(of))


def at_both(member: Any) -> tuple[tff.FederatedType, tff.FederatedType]:
  """Returns the types of values at the clients, and of one at the server."""
  return (
    tff.FederatedType(member, tff.CLIENTS),
    tff.FederatedType(member, tff.SERVER),
  )


def lists(rng: random.Random) -> Subject:
  """Sequences as lists, and as arguments at the server."""
  element = rng.choice([np.float32, np.int64, np.str_])
  sequence = tff.SequenceType(element)
  at_server = rng.random() < 0.4

  @tff.tensorflow.computation(sequence)
  def work(data: Any) -> Any:
    count = data.reduce(tf.constant(0, tf.int64), lambda n, _: n + 1)
    if element is np.str_:
      return count, count
    dtype = tf.as_dtype(element)
    return count, tf.cast(
      data.reduce(tf.constant(0, dtype), lambda s, x: s * 2 + x), tf.int64
    )

  def body(data: Any, other: Any) -> Any:
    made = tff.federated_map(work, data)
    first = tff.federated_map(member(0, (np.int64, np.int64)), made)
    return tff.federated_sum(first), tff.federated_map(work, other)

  placed = tff.FederatedType(sequence, tff.SERVER if at_server else tff.CLIENTS)
  types = tff.FederatedType(sequence, tff.CLIENTS), placed

  def one(rng: random.Random) -> Any:
    rows = [element(rng.randint(0, 5)) for _ in range(rng.choice([0, 1, 2, 4]))]
    if rows and rng.random() < 0.5:
      return rows
    dtype = tf.string if element is np.str_ else element
    return tf.data.Dataset.from_tensor_slices(tf.constant(rows, dtype))

  return Subject(
    room="lists",
    comp=traced(body, *types),
    arguments=lambda rng, n: [
      [one(rng) for _ in range(n)],
      one(rng) if at_server else [one(rng) for _ in range(n)],
    ],
  )


def kept(rng: random.Random) -> Subject:
  """Large states that go to the worker again, changed or not, or a view."""
  dtype = rng.choice([np.float32, np.int32, np.float64])
  rows = rng.choice([2**20 * 7 // np.dtype(dtype).itemsize // 8, 4])
  large = tff.TensorType(dtype, [None, 8])
  placed = tff.FederatedType(large, tff.SERVER)
  with_clients = rng.random() < 0.5
  change = rng.choice(["none", "write", "slice", "reverse", "columns", "view"])
  add = tff.tensorflow.computation(lambda x: x + 1, large)

  def body(state: Any, value: Any) -> Any:
    made = tff.federated_map(add, state)
    total = tff.federated_sum(value) if with_clients else state
    return made, total, made

  comp = traced(body, placed, tff.FederatedType(np.float32, tff.CLIENTS))

  def call(state: Any, value: Any) -> Any:
    found = [np.sum(state)]
    for _ in range(3):
      state, total, same = comp(state, value)
      if change == "write":
        state = state if state.flags.writeable else state.copy()
        state[0] = 5
      elif change == "slice":
        state = state[1:]
      elif change == "reverse":
        state = state[::-1]
      elif change == "columns":
        state = np.asfortranarray(state)
      elif change == "view" and dtype is not np.float64:
        other = np.int32 if dtype is np.float32 else np.float32
        state = state.view(other).view(dtype)
      found += [np.sum(state), np.array(state[:2]), np.sum(total), state.dtype]
      found += [np.sum(same), np.array(same[:2]), state.shape]
    return tuple(found)

  return Subject(
    room=f"kept, {change}",
    comp=call,
    arguments=lambda rng, n: [
      np.arange(rows * 8).reshape(rows, 8).astype(dtype) % 100,
      [np.float32(rng.randint(0, 4)) for _ in range(n)],
    ],
  )


FAMILIES = (secure, selected, all_equal, without_clients, lists, kept)
