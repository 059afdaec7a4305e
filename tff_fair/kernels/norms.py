"""Computes norms of client updates, and checks that tensors are finite."""

from typing import Any

import tensorflow as tf


def squared_norm(update: Any) -> tf.Tensor:
  """Returns ||Delta||^2 in float64, so that no square can overflow."""
  return tf.add_n(
    [
      tf.reduce_sum(tf.square(tf.cast(layer, tf.float64)))
      for layer in tf.nest.flatten(update)
    ]
  )


def inverse_norms(squared_norms: tf.Tensor) -> tf.Tensor:
  """Returns each 1/||Delta_k||, float64, from squared norms; 0 for 1/0."""
  return tf.math.reciprocal_no_nan(tf.sqrt(squared_norms))


def all_finite(structure: Any) -> tf.Tensor:
  """Returns whether no tensor holds a NaN or an infinity, bool[]."""
  return tf.reduce_all(
    [
      tf.reduce_all(tf.math.is_finite(tensor))
      for tensor in tf.nest.flatten(structure)
    ]
  )
