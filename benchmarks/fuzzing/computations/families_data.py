"""Families of computations about clients' data, and values that come again."""

from __future__ import annotations

import collections
import pathlib
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from benchmarks.fuzzing.computations.subject import Subject, member, traced

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


def datasets(rng: random.Random, folder: pathlib.Path) -> Subject:
  """Datasets of all kinds; a variable that they captured changes."""
  del folder
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


def lists(rng: random.Random, folder: pathlib.Path) -> Subject:
  """Sequences as lists, and as arguments at the server."""
  del folder
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


def kept(rng: random.Random, folder: pathlib.Path) -> Subject:
  """Large states that go to the worker again, changed or not, or a view."""
  del folder
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


FAMILIES = (datasets, datasets, lists, kept)
