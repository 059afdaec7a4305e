"""Norms of client updates, from their squares."""

import tensorflow as tf


def inverse_norms(squared_norm: tf.Tensor) -> tf.Tensor:
  """Returns 1/||Delta_k||, and 0 for a zero update.

  Args:
    squared_norm: float64[m], ||Delta_k||^2.

  Returns:
    float64[m].
  """
  return tf.math.divide_no_nan(
    tf.ones_like(squared_norm), tf.sqrt(squared_norm)
  )
