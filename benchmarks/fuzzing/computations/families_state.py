"""Families of computations about state, chance, failures and effects."""

from __future__ import annotations

import pathlib
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from benchmarks.fuzzing.computations import values
from benchmarks.fuzzing.computations.subject import (
  Subject,
  at_both,
  member,
  traced,
)

_AT_CLIENTS = tff.FederatedType(np.int32, tff.CLIENTS)
_AT_SERVER = tff.FederatedType(np.int32, tff.SERVER)


def _arguments(rng: random.Random, num_clients: int) -> Sequence[Any]:
  # Those of NumPy's scalars make no graph.
  make: Any = np.int32 if rng.random() < 0.2 else values.array_of(np.int32)
  of_clients = [make(rng.randint(-5, 9)) for _ in range(num_clients)]
  return [of_clients, np.int32(rng.randint(0, 4))]


def masks(rng: random.Random, folder: pathlib.Path) -> Subject:
  """A random mask of the server, which falls out of the sum."""
  del folder
  twice = rng.random() < 0.3

  @tff.tensorflow.computation
  def draw() -> Any:
    return tf.random.uniform([], 0, 1000, tf.int32)

  @tff.tensorflow.computation(np.int32)
  def draw_again(_: Any) -> Any:
    return tf.random.uniform([], 0, 1000, tf.int32)

  add = tff.tensorflow.computation(lambda x, m: x + m, [np.int32, np.int32])
  one = tff.tensorflow.computation(lambda _: 1, np.int32)

  @tff.tensorflow.computation(np.int32, np.int32, np.int32)
  def remove(total: Any, num: Any, mask: Any) -> Any:
    return total - num * mask

  def body(value: Any, state: Any) -> Any:
    mask = tff.federated_eval(draw, tff.SERVER)
    if twice:
      mask = tff.federated_map(draw_again, state)
    sent = tff.federated_broadcast(mask)
    total = tff.federated_sum(tff.federated_map(add, (value, sent)))
    num = tff.federated_sum(tff.federated_map(one, value))
    return tff.federated_map(remove, (total, num, mask)), mask, mask

  def holds(args: Sequence[Any], result: Any) -> bool:
    total, mask, same = result
    return bool(total == sum(args[0]) and mask == same)

  return Subject(
    room="masks",
    comp=traced(body, _AT_CLIENTS, _AT_SERVER),
    arguments=_arguments,
    holds=holds,
  )


def draws(rng: random.Random, folder: pathlib.Path) -> Subject:
  """Random draws of each client: without a seed they all differ."""
  del folder
  kind = rng.choice(["unseeded", "generator", "stateless", "dataset"])
  row = tff.TensorType(np.int32, [None])

  @tff.tensorflow.computation(np.int32)
  def draw(x: Any) -> Any:
    if kind == "unseeded":
      drawn = tf.random.uniform([], 0, 2**31 - 1, tf.int32)
    elif kind == "generator":
      drawn = tf.random.Generator.from_seed(3).uniform([], 0, 99, tf.int32)
    elif kind == "stateless":
      drawn = tf.random.stateless_uniform([], [1, x], 0, 99, tf.int32)
    else:

      @tf.function
      def last() -> Any:
        found = tf.constant(0)
        for number in tf.data.Dataset.range(9).shuffle(9, seed=2):
          found = found * 3 + tf.cast(number, tf.int32)
        return found

      drawn = last()
    return tf.reshape(drawn, [1])

  empty = tff.tensorflow.computation(lambda: tf.zeros([0], tf.int32))
  join = tff.tensorflow.computation(
    lambda a, b: tf.concat([a, b], 0), [row, row]
  )
  same = tff.tensorflow.computation(lambda a: a, row)
  append = tff.tensorflow.computation(
    lambda a, x: tf.concat([a, x], 0), [row, tff.TensorType(np.int32, [1])]
  )

  def body(value: Any, state: Any) -> Any:
    drawn = tff.federated_map(draw, value)
    return (
      tff.federated_aggregate(drawn, empty(), append, join, same),
      tff.federated_aggregate(drawn, empty(), append, join, same),
      state,
    )

  def differ(args: Sequence[Any], result: Any) -> bool:
    one, again, _ = result
    return len(one) == len({*one}) == len(args[0]) and [*one] == [*again]

  return Subject(
    room=f"draws, {kind}",
    comp=traced(body, _AT_CLIENTS, _AT_SERVER),
    arguments=_arguments,
    holds=differ if kind == "unseeded" else None,
  )


def variables(rng: random.Random, folder: pathlib.Path) -> Subject:
  """Variables and tables, of clients, of the server and of accumulators."""
  del folder
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
  add = tff.tensorflow.computation(
    lambda a, x: a + step(of_sum, x), [np.int32, np.int32]
  )
  merge = tff.tensorflow.computation(lambda a, b: a + b, [np.int32, np.int32])
  report = tff.tensorflow.computation(lambda a: a, np.int32)

  def body(value: Any, state: Any) -> Any:
    made = tff.federated_map(serve, state)
    total = tff.federated_aggregate(
      tff.federated_map(work, value), 0, add, merge, report
    )
    again = tff.federated_sum(tff.federated_map(work, value))
    return total, made, tff.federated_map(serve, total), again

  return Subject(
    room=f"state, client {of_client}, server {of_server}, sum {of_sum}",
    comp=traced(body, _AT_CLIENTS, _AT_SERVER),
    arguments=_arguments,
  )


def failures(rng: random.Random, folder: pathlib.Path) -> Subject:
  """Functions of several results, one of which fails, used or not."""
  del folder
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
  add = tff.tensorflow.computation(
    lambda a, x: a + work(x)[used[0]], [np.int32, np.int32]
  )
  merge = tff.tensorflow.computation(lambda a, b: a + b, [np.int32, np.int32])
  report = tff.tensorflow.computation(lambda a: a, np.int32)

  def body(value: Any, state: Any) -> Any:
    def at(name: str) -> Any:
      return working if place == name else plain

    made = tff.federated_map(at("client"), value)
    parts = [tff.federated_map(choose[i], made) for i in used]
    if place == "accumulate":
      sums = [tff.federated_aggregate(p, 0, add, merge, report) for p in parts]
    else:
      sums = [tff.federated_sum(part) for part in parts]
    served = tff.federated_map(at("server"), state)
    ended = tff.federated_map(at("end"), sums[0])
    ends = [tff.federated_map(choose[i], ended) for i in used]
    return [*sums, *ends, *(tff.federated_map(choose[i], served) for i in used)]

  return Subject(
    room=f"failures, {kind} at {place}",
    comp=traced(body, _AT_CLIENTS, _AT_SERVER),
    arguments=_arguments,
  )


def effects(rng: random.Random, folder: pathlib.Path) -> Subject:
  """Functions that append a byte to a file each time they run."""
  path = folder / f"effects_{rng.getrandbits(48)}"
  place = rng.choice(["client", "server", "end", "accumulate", "zero", "sent"])
  is_used = rng.random() < 0.6
  result = rng.choice(["sum", "sum", "clients", "two sums"])

  def say(x: Any, name: str) -> Any:
    if place != name:
      return x
    said = tf.print("x", output_stream=f"file://{path}", end="")
    with tf.control_dependencies([said]):
      return tf.identity(x)

  def saying(name: str) -> Any:
    def work(x: Any) -> Any:
      return say(x, name), x

    return tff.tensorflow.computation(work, np.int32)

  chosen = 0 if is_used else 1
  choose = member(chosen, (np.int32, np.int32))
  zero = tff.tensorflow.computation(lambda: say(tf.constant(0), "zero"))
  add = tff.tensorflow.computation(
    lambda a, x: a + say(x, "accumulate"), [np.int32, np.int32]
  )
  merge = tff.tensorflow.computation(lambda a, b: a + b, [np.int32, np.int32])
  report = tff.tensorflow.computation(lambda a: a, np.int32)

  def body(value: Any, state: Any) -> Any:
    def mapped(name: str, x: Any) -> Any:
      return tff.federated_map(choose, tff.federated_map(saying(name), x))

    served = mapped("server", state)
    sent = tff.federated_broadcast(mapped("sent", served))
    made = mapped("client", value)
    total = tff.federated_aggregate(made, zero(), add, merge, report)
    results = [mapped("end", total), served, tff.federated_sum(sent)]
    if result == "clients":
      results.append(made)
    if result == "two sums":
      results.append(tff.federated_sum(made))
    return results

  return Subject(
    room=f"effects at {place}",
    comp=traced(body, _AT_CLIENTS, _AT_SERVER),
    arguments=_arguments,
    effects=path,
  )


def containers(rng: random.Random, folder: pathlib.Path) -> Subject:
  """Values that pass through, in all containers, to and from all places."""
  del folder
  type_spec = values.member_type(rng, depth=3)
  at_clients = rng.random() < 0.4
  takes_server = rng.random() < 0.7

  def body(value: Any, state: Any) -> Any:
    results = [state] if takes_server else []
    if at_clients:
      results.append(value)
    else:
      results.append(tff.federated_broadcast(state))
    return values.Attributes(*(results * 2)[:2])

  types = at_both(type_spec)
  return Subject(
    room="containers",
    comp=traced(body, *types),
    arguments=lambda rng, n: [
      [values.value(rng, type_spec, is_wild=True) for _ in range(n)],
      values.value(rng, type_spec, is_wild=True),
    ],
  )


FAMILIES = (masks, draws, variables, failures, effects, containers)
