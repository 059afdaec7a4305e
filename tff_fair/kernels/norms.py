"""Computes norms of client updates, and checks that tensors are finite."""

from typing import Any

import tensorflow as tf


def squared_norm(update: Any) -> tf.Tensor:
  """Returns an update's squared norm in float64, so no square overflows."""
  return tf.add_n(
    [
      tf.reduce_sum(tf.square(tf.cast(layer, tf.float64)))
      for layer in tf.nest.flatten(update)
    ]
  )


def inverse_norms(squared_norms: tf.Tensor) -> tf.Tensor:
  """Returns 1 / norm, in float64, for each squared norm; 0 for a norm of 0."""
  return tf.math.reciprocal_no_nan(tf.sqrt(squared_norms))


def all_finite(structure: Any) -> tf.Tensor:
  """Returns whether no tensor holds a NaN or an infinity, bool[]."""
  return tf.reduce_all(
    [
      tf.reduce_all(tf.math.is_finite(tensor))
      for tensor in tf.nest.flatten(structure)
    ]
  )
