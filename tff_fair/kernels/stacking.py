"""Collects the updates of a cohort as the rows of a matrix, in linear memory.

`tff.federated_aggregate` keeps every intermediate accumulator alive until the
round ends, so that appending row by row costs m^2 d memory. Here a row is put
into a free slot, which copies nothing; a full level of slots is joined into one
block, which goes into a slot of the next level. A row is copied once per level:
about log(m) / log(SLOTS) times.
"""

from typing import Any, NamedTuple

import tensorflow as tf

# Slots of a level, and levels; the last one joins its slots in place, so that
# there is no limit to the number of rows.
SLOTS = 8
LEVELS = 3


class Stack(NamedTuple):
  """Rows in slots.

  Attributes:
    slots: LEVELS tuples of SLOTS blocks, each [rows, d]; unused ones have none.
    used: int32[LEVELS], the slots used in each level.
  """

  slots: Any
  used: Any


def flatten_update(update: Any) -> tf.Tensor:
  """Returns the layers of an update as one row, [1, d].

  Layers of different float dtypes are cast to the widest of them.
  """
  layers = tf.nest.flatten(update)
  dtype = max((layer.dtype for layer in layers), key=lambda d: d.size)
  return tf.concat(
    [tf.reshape(tf.cast(layer, dtype), [1, -1]) for layer in layers], axis=1
  )


def row_spec(update_specs: Any) -> tf.TensorSpec:
  """Returns the spec of an update as a vector.

  Args:
    update_specs: Structure of `tf.TensorSpec` of static shapes.
  """
  flat = tf.nest.flatten(update_specs)
  dtype = max((spec.dtype for spec in flat), key=lambda d: d.size)
  return tf.TensorSpec([sum(s.shape.num_elements() for s in flat)], dtype)


def unflatten_update(vector: tf.Tensor, update_specs: Any) -> Any:
  """Returns the update that has `vector` as its row.

  Args:
    vector: [d].
    update_specs: Structure of `tf.TensorSpec` of static shapes.
  """
  flat = tf.nest.flatten(update_specs)
  parts = tf.split(vector, [spec.shape.num_elements() for spec in flat])
  layers = [
    tf.cast(tf.reshape(part, spec.shape), spec.dtype)
    for part, spec in zip(parts, flat, strict=True)
  ]
  return tf.nest.pack_sequence_as(update_specs, layers)


def no_rows(spec: tf.TensorSpec) -> tf.Tensor:
  """Returns a matrix without rows, in a type that allows any number of them.

  Args:
    spec: Of a row, shape [d], or [] for rows that are scalars.
  """
  return tf.compat.v1.placeholder_with_default(
    tf.zeros([0, *spec.shape], spec.dtype), [None, *spec.shape]
  )


def empty_stack(spec: tf.TensorSpec) -> Stack:
  """Returns a stack without rows.

  Args:
    spec: Of a row, shape [d].
  """
  return Stack(
    tuple(tuple(no_rows(spec) for _ in range(SLOTS)) for _ in range(LEVELS)),
    tf.zeros([LEVELS], tf.int32),
  )


def push(stack: Stack, row: tf.Tensor) -> Stack:
  """Returns the stack with one row more.

  Args:
    stack: The stack.
    row: [1, d].
  """
  return _push_block(stack, row, level=0)


def merge(first: Stack, second: Stack) -> Stack:
  """Returns the stack with the rows of `first`, then those of `second`."""

  def join() -> Stack:
    block = tf.concat([rows(first), rows(second)], axis=0)
    empty = Stack(
      tf.nest.map_structure(lambda slot: slot[:0], first.slots),
      tf.zeros_like(first.used),
    )
    return _push_block(empty, block, level=LEVELS - 1)

  return tf.cond(
    tf.reduce_any(second.used > 0),
    join,
    lambda: tf.nest.map_structure(tf.identity, first),
  )


def rows(stack: Stack) -> tf.Tensor:
  """Returns all rows, [m, d], in the order in which they were pushed."""
  # Later levels hold earlier rows.
  return tf.concat(
    [slot for level in reversed(stack.slots) for slot in level], axis=0
  )


def _push_block(stack: Stack, block: tf.Tensor, level: int) -> Stack:
  """Puts a block into the free slot of a level, and sees to another."""
  place = stack.used[level]
  slots = tuple(
    tf.cond(tf.equal(place, i), lambda: block, lambda s=slot: tf.identity(s))
    for i, slot in enumerate(stack.slots[level])
  )
  stack = Stack(
    _replaced(stack.slots, level, slots),
    tf.tensor_scatter_nd_add(stack.used, [[level]], [1]),
  )
  return tf.cond(
    tf.equal(place + 1, SLOTS),
    lambda: _carry(stack, level),
    lambda: tf.nest.map_structure(tf.identity, stack),
  )


def _carry(stack: Stack, level: int) -> Stack:
  """Joins the full slots of a level and hands them to the next one."""
  joined = tf.concat(stack.slots[level], axis=0)
  none = tf.zeros([0, joined.shape[1]], joined.dtype)
  cleared = (none,) * SLOTS
  if level + 1 == LEVELS:
    return Stack(
      _replaced(stack.slots, level, (joined, *cleared[1:])),
      tf.tensor_scatter_nd_update(stack.used, [[level]], [1]),
    )
  emptied = Stack(
    _replaced(stack.slots, level, cleared),
    tf.tensor_scatter_nd_update(stack.used, [[level]], [0]),
  )
  return _push_block(emptied, joined, level + 1)


def _replaced(slots: Any, level: int, new: Any) -> Any:
  return (*slots[:level], new, *slots[level + 1 :])
