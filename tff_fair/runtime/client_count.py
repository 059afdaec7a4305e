"""Counts the clients that have begun, in graphs and outside of them."""

import functools

import tensorflow as tf


@functools.cache
def _count() -> tf.Variable:
  with tf.init_scope(), tf.device("CPU:0"):
    return tf.Variable(0, dtype=tf.int64, trainable=False)


def add_one() -> tf.Operation | None:
  """Counts one more; in a graph, returns the operation that does."""
  return tf.raw_ops.AssignAddVariableOp(
    resource=_count().handle, value=tf.constant(1, tf.int64)
  )


def num_begun() -> int:
  """Returns how many clients have begun; each pass over its data counts."""
  return int(_count().numpy())
