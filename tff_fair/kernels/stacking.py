"""Collects the updates of a cohort in blocks of rows, in linear memory.

`tff.federated_aggregate` keeps every intermediate accumulator alive until the
round ends, so appending m rows of size d to a matrix would take m^2 d memory.
Here each row fills a slot, and moving slots copies nothing. When all slots are
taken, they are joined into a page, which copies each row once. Pages are joined
only when there is no room for another page.
"""

from typing import Any, NamedTuple

import tensorflow as tf

# TFF takes some microseconds per client for each tensor of an accumulator,
# which dominates if rows are small; if rows are large, copying dominates.
_LARGE_ROW = 2**21  # Bytes.
# The numbers of slots and of pages, by whether rows are large.
_SIZES = {False: (16, 16), True: (64, 8)}


class Stack(NamedTuple):
  """Rows in slots and pages, as the module's docstring explains."""

  # Tensors [r, d], the latest first; r is 1, or 0 if no row was pushed.
  slots: tuple[tf.Tensor, ...]
  pages: tuple[tf.Tensor, ...]  # Tensors [rows, d], the latest first.
  rest: tf.Tensor  # [rows, d], all earlier rows.
  slots_taken: tf.Tensor  # int32[].
  pages_taken: tf.Tensor  # int32[].


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
  """Returns the spec of a flattened update, a vector [d]."""
  flat = tf.nest.flatten(update_specs)
  dtype = max((spec.dtype for spec in flat), key=lambda d: d.size)
  return tf.TensorSpec([sum(s.shape.num_elements() for s in flat)], dtype)


def unflatten_update(vector: tf.Tensor, update_specs: Any) -> Any:
  """Returns the update that `flatten_update` flattens to `vector`, [d]."""
  flat = tf.nest.flatten(update_specs)
  parts = tf.split(vector, [spec.shape.num_elements() for spec in flat])
  layers = [
    tf.cast(tf.reshape(part, spec.shape), spec.dtype)
    for part, spec in zip(parts, flat, strict=True)
  ]
  return tf.nest.pack_sequence_as(update_specs, layers)


def specs_of(tensors: Any) -> Any:
  """Returns the specs of a structure of tensors."""
  return tf.nest.map_structure(
    lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), tensors
  )


CLIENT_ID_SPEC = tf.TensorSpec([], tf.int64)


def no_rows(specs: Any) -> Any:
  """Returns matrices with 0 rows, whose types allow any number of rows.

  `specs` is the spec of a row, [d], or [] if rows are scalars; or a structure
  of such specs.
  """
  return tf.nest.map_structure(
    lambda spec: tf.compat.v1.placeholder_with_default(
      tf.zeros([0, *spec.shape], spec.dtype), [None, *spec.shape]
    ),
    specs,
  )


def zeros(specs: Any) -> Any:
  """Returns tensors of zeros for a structure of specs."""
  return tf.nest.map_structure(lambda s: tf.zeros(s.shape, s.dtype), specs)


def rows_if(is_included: tf.Tensor, values: Any) -> Any:
  """Returns each value as one row, [1, ...], or as [0, ...] if not included."""
  number = tf.cast(is_included, tf.int32)
  return tf.nest.map_structure(
    lambda value: tf.repeat(value[tf.newaxis], number, axis=0), values
  )


def join_rows(first: Any, second: Any) -> Any:
  """Joins two structures of matrices: the rows of `first`, then of `second`."""
  return tf.nest.map_structure(lambda x, y: tf.concat([x, y], 0), first, second)


def are_missing(ids: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
  """Returns, as bool[n], which of `ids`, int64[n], are not among `others`."""
  return tf.reduce_all(tf.not_equal(ids[:, tf.newaxis], others), axis=1)


def empty_stack(spec: tf.TensorSpec) -> Stack:
  """Returns a stack without rows; `spec` is the spec of a row, [d]."""
  num_slots, num_pages = _SIZES[
    spec.shape.num_elements() * spec.dtype.size >= _LARGE_ROW
  ]
  zero = tf.zeros([], tf.int32)
  return Stack(
    tuple(no_rows(spec) for _ in range(num_slots)),
    tuple(no_rows(spec) for _ in range(num_pages)),
    no_rows(spec),
    zero,
    zero,
  )


def push(stack: Stack, row: tf.Tensor) -> Stack:
  """Returns the stack after pushing one row, [1, d], or no row, [0, d]."""
  pushed = stack._replace(
    slots=(row, *stack.slots[:-1]), slots_taken=stack.slots_taken + 1
  )
  return tf.cond(
    pushed.slots_taken < len(pushed.slots),
    lambda: tf.nest.map_structure(tf.identity, pushed),
    lambda: _slots_to_page(pushed),
  )


def merge(first: Stack, second: Stack) -> Stack:
  """Returns a stack of the rows of `first`, followed by those of `second`."""

  def join() -> Stack:
    return Stack(
      _empty_copies(first.slots),
      _empty_copies(first.pages),
      tf.concat([*blocks(first), *blocks(second)], 0),
      tf.zeros_like(first.slots_taken),
      tf.zeros_like(first.pages_taken),
    )

  return tf.cond(
    _is_empty(second),
    lambda: tf.nest.map_structure(tf.identity, first),
    join,
  )


def blocks(stack: Stack) -> tuple[tf.Tensor, ...]:
  """Returns blocks of rows, [m_i, d], in the order in which they were pushed.

  All stacks with the same row spec have equally many blocks; some may be empty.
  """
  return (stack.rest, *reversed(stack.pages), *reversed(stack.slots))


def rows(stack: Stack) -> tf.Tensor:
  """Returns all rows, [m, d], in the order in which they were pushed."""
  return tf.concat(blocks(stack), 0)


def _is_empty(stack: Stack) -> tf.Tensor:
  """Returns whether nothing was ever pushed, not even a matrix [0, d]."""
  taken = stack.slots_taken + stack.pages_taken
  return tf.equal(taken + tf.shape(stack.rest)[0], 0)


def _slots_to_page(stack: Stack) -> Stack:
  """Joins the slots, which must all be taken, into a page."""
  page = tf.concat(stack.slots[::-1], 0)
  stack = stack._replace(
    slots=_empty_copies(stack.slots),
    slots_taken=tf.zeros_like(stack.slots_taken),
  )

  def add_page() -> Stack:
    return stack._replace(
      pages=(page, *stack.pages[:-1]), pages_taken=stack.pages_taken + 1
    )

  def join_pages() -> Stack:
    return stack._replace(
      pages=_empty_copies(stack.pages),
      rest=tf.concat([stack.rest, *stack.pages[::-1], page], 0),
      pages_taken=tf.zeros_like(stack.pages_taken),
    )

  return tf.cond(stack.pages_taken < len(stack.pages), add_page, join_pages)


def _empty_copies(tensors: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
  return (tensors[0][:0],) * len(tensors)
