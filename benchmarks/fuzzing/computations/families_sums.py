"""Families of computations about sums: what is summed, how, and from where."""

# Functions of one kind take the same arguments.
# ruff: noqa: ARG005, PLW0108

from __future__ import annotations

import collections
import random
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from benchmarks.fuzzing.computations import contexts, values
from benchmarks.fuzzing.computations.subject import (
  Subject,
  at_both,
  collected,
  traced,
)

_SECURE = contexts.Options(simulate_secure_sums=True)


def _numbers(rng: random.Random, type_spec: tff.Type, num: int) -> list[Any]:
  return [values.value(rng, type_spec) for _ in range(num)]


def aggregates(rng: random.Random) -> Subject:
  """Zeros that are not neutral, and merges that do not fit."""
  dtype = rng.choice([np.int32, np.float32])
  zero = dtype(rng.choice([0, 0, 1, 100, -7]))
  accumulating = rng.choice([tf.add, tf.maximum, lambda a, x: a * 2 + x])
  merging = rng.choice([tf.add, tf.add, tf.maximum, tf.subtract])
  factor = rng.choice([1, 2])
  has_server_zero = rng.random() < 0.3
  operations = (
    tff.tensorflow.computation(lambda a, x: accumulating(a, x), [dtype, dtype]),
    tff.tensorflow.computation(lambda a, b: merging(a, b), [dtype, dtype]),
    tff.tensorflow.computation(lambda a: a * factor, dtype),
  )
  make_zero = tff.tensorflow.computation(lambda: tf.constant(zero))

  def body(value: Any, at_server: Any) -> Any:
    first = make_zero() if has_server_zero else zero
    return tff.federated_aggregate(value, first, *operations), at_server

  return Subject(
    room="aggregates",
    comp=traced(body, *at_both(dtype)),
    arguments=lambda rng, n: [
      _numbers(rng, tff.TensorType(dtype), n),
      dtype(rng.randint(0, 5)),
    ],
  )


def collecting(rng: random.Random) -> Subject:
  """Aggregates whose accumulator grows, in the order of the clients."""
  dtype = rng.choice([np.int32, np.float32, np.float64, np.str_])

  def body(value: Any, at_server: Any) -> Any:
    return collected(value, dtype), at_server

  types = (
    tff.FederatedType(dtype, tff.CLIENTS),
    tff.FederatedType(np.int32, tff.SERVER),
  )
  return Subject(
    room="collecting",
    comp=traced(body, *types),
    arguments=lambda rng, n: [
      _numbers(rng, tff.TensorType(dtype), n),
      np.int32(1),
    ],
  )


def secure(rng: random.Random) -> Subject:
  """Secure sums, in the clear."""
  dtype = rng.choice([np.int32, np.int64])
  kind = rng.choice(["sum", "bitwidth", "modular", "factory", "select"])
  options = _SECURE if rng.random() < 0.8 else contexts.PLAIN
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
    options=_SECURE if is_secure else contexts.PLAIN,
    arguments=lambda rng, n: [
      [
        np.array([rng.randint(0, 8 if i == 0 else 7)] * num_keys, np.int32) % 8
        for i in range(n)
      ],
      np.arange(8, dtype=np.float32),
      np.int32(rng.choice([7, 7, 3])),
    ],
  )


def dependent(rng: random.Random) -> Subject:
  """Sums of what depends on other sums, with several of them in one."""
  depth = rng.choice([1, 2, 3])
  dtype = rng.choice([np.float32, np.int32, np.float64])
  add = tff.tensorflow.computation(lambda x, s: x * 2 - s, [dtype, dtype])
  kinds = [tff.federated_sum, tff.federated_sum, tff.federated_max]
  if dtype is not np.int32:
    kinds.append(tff.federated_mean)

  def body(value: Any, state: Any) -> Any:
    results = []
    total = state
    for _ in range(depth):
      sent = tff.federated_broadcast(total)
      value = tff.federated_map(add, (value, sent))
      total = rng.choice(kinds)(value)
      results.append(total)
    return collections.OrderedDict(
      state=total, all=results, sent=tff.federated_sum(value), before=state
    )

  return Subject(
    room="dependent sums",
    comp=traced(body, *at_both(dtype)),
    arguments=lambda rng, n: [
      _numbers(rng, tff.TensorType(dtype), n),
      dtype(rng.randint(-2, 2)),
    ],
  )


def uneven(rng: random.Random) -> Subject:
  """Two arguments of clients, which are sometimes of unequal numbers."""
  nested = rng.random() < 0.3
  with_server = rng.random() < 0.5
  at_clients, at_server = at_both(np.float32)

  def body(*args: Any) -> Any:
    one, other, *rest = [*args[0]] if nested else args
    return tff.federated_sum(one), tff.federated_mean(one, other), *rest

  types = [at_clients, at_clients, *([at_server] if with_server else [])]

  def arguments(rng: random.Random, num: int) -> list[Any]:
    other = num if rng.random() < 0.5 else rng.choice([0, 1, 2, 3, 33, num + 1])
    args: list[Any] = [
      _numbers(rng, tff.TensorType(np.float32), n) for n in (num, other)
    ]
    args += [np.float32(1)] if with_server else []
    return [args] if nested else args

  comp = traced(body, types) if nested else traced(body, *types)
  return Subject(room="uneven", comp=comp, arguments=arguments)


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
    options=contexts.Options(default_num_clients=num),
    arguments=lambda _, __: [] if kind == "nothing" else [number],
  )


def across(rng: random.Random) -> Subject:
  """Arithmetic over the borders of computations, which graphs must not fold."""
  c, d = (rng.choice([0.0, 1.0, 3.0, 0.1, 7.0, 1e-30, 1e30]) for _ in range(2))
  first, second = (
    tff.tensorflow.computation(rng.choice(options), [np.float32, np.float32])
    for options in (
      [
        lambda x, y: x * c,
        lambda x, y: x / (c or 1.0),
        lambda x, y: y + c,
        lambda x, y: x * y,
      ],
      [
        lambda x, y: x * d,
        lambda x, y: y / (d or 1.0),
        lambda x, y: x + (y + d),
        lambda x, y: x * d + y * d,
        lambda x, y: (y * d) / (d or 1.0),
        lambda x, y: y - y,
      ],
    )
  )
  # A constant of one computation, which another one takes as an argument.
  constant = tff.tensorflow.computation(lambda _: tf.constant(c), np.float32)
  pair = tff.tensorflow.computation(lambda x: (x, tf.constant(d)), np.float32)
  swapped = tff.tensorflow.computation(
    lambda x: (x[1], x[0]), tff.to_type((np.float32, np.float32))
  )

  def body(value: Any, state: Any) -> Any:
    sent = tff.federated_broadcast(state)
    made_there = tff.federated_map(constant, value)
    at_server = tff.federated_map(constant, state)
    choices = [sent, made_there, tff.federated_broadcast(at_server)]
    made = tff.federated_map(first, (value, rng.choice(choices)))
    made = tff.federated_map(second, (made, rng.choice([value, *choices])))
    both = tff.federated_map(swapped, tff.federated_map(pair, made))
    if rng.random() < 0.5:
      made = tff.federated_map(rng.choice([first, second]), both)
    total = tff.federated_sum(made)
    ended = tff.federated_map(first, (total, at_server))
    return total, tff.federated_map(second, (ended, state)), ended

  special = [np.nan, np.inf, -np.inf, 1.0, 0.1, 3.0, -0.0, 1e-40, 5.0]

  def number(rng: random.Random) -> Any:
    return np.asarray(rng.choice(special), np.float32)

  return Subject(
    room="across",
    comp=traced(body, *at_both(np.float32)),
    arguments=lambda rng, n: [[number(rng) for _ in range(n)], number(rng)],
  )


FAMILIES = (
  *(aggregates, collecting, secure, selected, dependent, uneven),
  *(all_equal, without_clients, across),
)
