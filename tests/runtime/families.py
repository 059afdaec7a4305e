"""Families of computations, each about one thing that may go wrong.

The cases of `meaning_test.py` are about others.
"""

# Functions of one kind take the same arguments.
# ruff: noqa: ARG005, PLW0108

from __future__ import annotations

import collections
import os
import random
import tempfile
from collections.abc import Callable, Sequence
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


def member(index: int, of: Any) -> tff.Computation:
  """Returns a function to a member of a structure of a type."""
  return tff.tensorflow.computation(lambda x: x[index], tff.to_type(of))


def at_both(member: Any) -> tuple[tff.FederatedType, tff.FederatedType]:
  """Returns the types of values at the clients, and of one at the server."""
  return (
    tff.FederatedType(member, tff.CLIENTS),
    tff.FederatedType(member, tff.SERVER),
  )


def _arguments(rng: random.Random, num_clients: int) -> Sequence[Any]:
  # Those of NumPy's scalars make no graph.
  of_clients: list[Any] = [
    np.int32(rng.randint(-5, 9)) for _ in range(num_clients)
  ]
  if rng.random() < 0.8:
    of_clients = [*map(np.asarray, of_clients)]
  return [of_clients, np.int32(rng.randint(0, 4))]


def _of_numbers(
  room: str, body: Callable[[Any, Any], Any], **others: Any
) -> Subject:
  """Returns a subject over a number of each client, and one of the server."""
  comp = traced(body, *at_both(np.int32))
  return Subject(room=room, comp=comp, arguments=_arguments, **others)


def _summed(
  value: Any, change: Callable[[Any], Any], zero: Any = 0
) -> tff.Value:
  """Returns an aggregate that adds what a function makes of each value."""
  add = tff.tensorflow.computation(
    lambda a, x: a + change(x), [np.int32, np.int32]
  )
  merge = tff.tensorflow.computation(lambda a, b: a + b, [np.int32, np.int32])
  report = tff.tensorflow.computation(lambda a: a, np.int32)
  return tff.federated_aggregate(value, zero, add, merge, report)


def variables(rng: random.Random) -> Subject:
  """Variables and tables, of clients, of the server and of accumulators."""
  kinds = ["variable", "table", "mutable", "array", "none"]

  def step(kind: str, x: Any) -> Any:
    if kind == "variable":
      variable = tf.Variable(rng.choice([0, 3]), dtype=tf.int32)
      with tf.control_dependencies([variable.assign_add(x)]):
        read = variable.read_value()
      with tf.control_dependencies([read]):
        return read + variable.assign_add(1)
    if kind == "table":
      table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer([1, 2, 3], [10, 20, 30]), -1
      )
      return table.lookup(x)
    if kind == "mutable":
      table = tf.lookup.experimental.MutableHashTable(tf.int32, tf.int32, -1)
      with tf.control_dependencies([table.insert(x, x + 1)]):
        return table.lookup(x) * 2
    if kind == "array":
      array = tf.TensorArray(tf.int32, 2, clear_after_read=False)
      return tf.reduce_sum(array.write(0, x).write(1, x * 2).stack())
    return x

  of_client, of_server, of_sum = (rng.choice(kinds) for _ in range(3))
  if rng.random() < 0.6:
    of_sum = "none"
  work = tff.tensorflow.computation(lambda x: step(of_client, x), np.int32)
  serve = tff.tensorflow.computation(lambda x: step(of_server, x), np.int32)

  def body(value: Any, state: Any) -> Any:
    made = tff.federated_map(serve, state)
    worked = tff.federated_map(work, value)
    total = _summed(worked, lambda x: step(of_sum, x))
    again = tff.federated_sum(tff.federated_map(work, value))
    return total, made, tff.federated_map(serve, total), again

  return _of_numbers(
    f"state, client {of_client}, server {of_server}, sum {of_sum}", body
  )


def failures(rng: random.Random) -> Subject:
  """Functions of several results, one of which fails, used or not."""
  kind = rng.choice(["assert", "division", "gather", "print", "parse"])
  used = rng.choice([(0,), (1,), (0, 1)])
  place = rng.choice(["client", "server", "end", "accumulate"])
  limit = rng.choice([8, 3])

  def work(x: Any) -> Any:
    if kind == "assert":
      check = tf.debugging.assert_less(x, limit)
      with tf.control_dependencies([check]):
        failing = tf.identity(x)
    elif kind == "division":
      failing = 10 // (x - limit)
    elif kind == "gather":
      failing = tf.gather(tf.range(limit), tf.abs(x))
    elif kind == "parse":
      text = tf.where(x < limit, "1", "x")
      failing = tf.strings.to_number(text, tf.int32)
    else:
      tf.debugging.assert_less(x, limit)  # TensorFlow runs it for itself.
      failing = x
    return failing, x + 1

  working = tff.tensorflow.computation(work, np.int32)
  plain = tff.tensorflow.computation(lambda x: (x, x + 1), np.int32)
  choose = {i: member(i, (np.int32, np.int32)) for i in (0, 1)}

  def body(value: Any, state: Any) -> Any:
    def at(name: str) -> Any:
      return working if place == name else plain

    made = tff.federated_map(at("client"), value)
    parts = [tff.federated_map(choose[i], made) for i in used]
    if place == "accumulate":
      sums = [_summed(part, lambda x: work(x)[used[0]]) for part in parts]
    else:
      sums = [tff.federated_sum(part) for part in parts]
    served = tff.federated_map(at("server"), state)
    ended = tff.federated_map(at("end"), sums[0])
    ends = [tff.federated_map(choose[i], ended) for i in used]
    return [*sums, *ends, *(tff.federated_map(choose[i], served) for i in used)]

  return _of_numbers(f"failures, {kind} at {place}", body)


def effects(rng: random.Random) -> Subject:
  """Functions that append a byte to a file each time they run."""
  file = tempfile.TemporaryFile()  # noqa: SIM115  It goes with the subject.
  path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
  place = rng.choice(["client", "server", "end", "accumulate", "zero", "sent"])
  is_used = rng.random() < 0.6
  result = rng.choice(["sum", "sum", "clients", "two sums"])

  def say(x: Any, name: str) -> Any:
    if place != name:
      return x
    said = tf.print("x", output_stream=f"file://{path}", end="")
    with tf.control_dependencies([said]):
      return tf.identity(x)

  choose = member(0 if is_used else 1, (np.int32, np.int32))
  zero = tff.tensorflow.computation(lambda: say(tf.constant(0), "zero"))

  def body(value: Any, state: Any) -> Any:
    def mapped(name: str, x: Any) -> Any:
      saying = tff.tensorflow.computation(lambda x: (say(x, name), x), np.int32)
      return tff.federated_map(choose, tff.federated_map(saying, x))

    served = mapped("server", state)
    sent = tff.federated_broadcast(mapped("sent", served))
    made = mapped("client", value)
    total = _summed(made, lambda x: say(x, "accumulate"), zero())
    results = [mapped("end", total), served, tff.federated_sum(sent)]
    if result == "clients":
      results.append(made)
    if result == "two sums":
      results.append(tff.federated_sum(made))
    return results

  return _of_numbers(f"effects at {place}", body, effects=file)


# Clients' data, and values that come again.


_ROW = collections.OrderedDict(
  x=tff.TensorType(np.float32, [None, 2]), y=tff.TensorType(np.int32, [None])
)
_DATA = tff.FederatedType(tff.SequenceType(_ROW), tff.CLIENTS)
_STATE = tff.FederatedType(np.float32, tff.SERVER)


def _dataset(
  rng: random.Random, factor: tf.Variable | None = None
) -> tf.data.Dataset:
  """Draws a dataset of batches."""
  num = rng.choice([0, 1, 2, 5, 6])
  start = rng.randint(0, 5)
  data = tf.data.Dataset.from_tensor_slices(
    collections.OrderedDict(
      x=np.arange(start, start + 2 * num, dtype=np.float32).reshape(num, 2),
      y=np.arange(num, dtype=np.int32),
    )
  )
  changes: Sequence[Callable[[tf.data.Dataset], tf.data.Dataset]] = (
    lambda d: d.shuffle(4, seed=5),
    lambda d: d.shuffle(4, seed=5, reshuffle_each_iteration=True),
    lambda d: d.cache(),
    lambda d: d.repeat(2),
    lambda d: d.filter(lambda row: row["y"] != 1),
    lambda d: d.map(
      lambda row: collections.OrderedDict(x=row["x"] * 2, y=row["y"])
    ),
    lambda d: d.take(3),
    lambda d: d.map(_of_seed),
    lambda d: d.prefetch(2),
  )
  for change in rng.choices(changes, k=rng.choice([0, 1, 2])):
    data = change(data)
  if factor is not None:
    data = data.map(
      lambda row: collections.OrderedDict(x=row["x"] * factor, y=row["y"])
    )
  return data.batch(rng.choice([1, 2, 3]), drop_remainder=rng.random() < 0.2)


def _of_seed(row: Any) -> Any:
  noise = tf.random.stateless_uniform([2], [1, 2], 0, 9, tf.int32)
  return collections.OrderedDict(
    x=row["x"] + tf.cast(noise, tf.float32), y=row["y"]
  )


def _computation(rng: random.Random) -> tff.Computation:
  """Draws a computation over datasets and a state."""
  kind = rng.choice(["loop", "reduce", "twice", "iterate"])

  @tff.tensorflow.computation(tff.SequenceType(_ROW), np.float32)
  def work(data: Any, state: Any) -> Any:
    @tf.function
    def loop(data: Any) -> Any:
      total, num = state, tf.constant(0)
      for row in data:
        total = total * 2.0 + tf.reduce_sum(row["x"])
        num += tf.size(row["y"])
      return total, num

    if kind == "reduce":
      total = data.reduce(state, lambda s, row: s + tf.reduce_sum(row["x"]))
      return total, tf.constant(1)
    if kind == "twice":
      total, num = loop(data)
      # Shuffles draw a seed for each iteration, so one ends before the other.
      with tf.control_dependencies([total]):
        return loop(data)[0] - total, num
    if kind == "iterate":
      return loop(data.take(1).concatenate(data.skip(2)))
    return loop(data)

  first, second = (member(i, (np.float32, np.int32)) for i in (0, 1))
  returns_rows = rng.random() < 0.15

  def body(data: Any, state: Any) -> Any:
    made = tff.federated_map(work, (data, tff.federated_broadcast(state)))
    num = tff.federated_map(second, made)
    results = [
      tff.federated_sum(tff.federated_map(first, made)),
      tff.federated_sum(num),
    ]
    if returns_rows:
      results.append(made)
    return tuple(results)

  return traced(body, _DATA, _STATE)


def datasets(rng: random.Random) -> Subject:
  """Datasets of all kinds; a variable that they captured changes."""
  comps = [_computation(rng) for _ in range(rng.choice([1, 1, 2]))]
  factor = tf.Variable(1.0) if rng.random() < 0.4 else None
  known = [_dataset(rng, factor) for _ in range(6)]
  former: list[Any] = []
  number = iter(range(10**9))

  def comp(*args: Any) -> Any:
    return [c(*args) for c in comps]

  def arguments(rng: random.Random, num_clients: int) -> list[Any]:
    if factor is not None and next(number) % 2:
      factor.assign(rng.choice([0.0, 1.0, 2.0, 3.0]))
    if former and rng.random() < 0.5:
      clients = rng.choice(former)
    else:
      clients = [
        rng.choice(known) if rng.random() < 0.8 else _dataset(rng)
        for _ in range(min(num_clients, 33))
      ]
      former.append(clients)
    return [clients, np.float32(rng.randint(0, 3))]

  room = f"datasets{', variable' if factor is not None else ''}"
  return Subject(room=room, comp=comp, arguments=arguments)


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


FAMILIES = (
  *(secure, selected, all_equal, without_clients, across, variables),
  *(failures, effects, datasets, lists, kept),
)
