"""Whether numbers are finite."""

from typing import Any

import tensorflow as tf


def all_finite(structure: Any) -> tf.Tensor:
  """Returns whether no tensor holds a NaN or an infinity, bool[].

  Args:
    structure: A structure of float tensors.
  """
  return tf.reduce_all(
    [
      tf.reduce_all(tf.math.is_finite(tensor))
      for tensor in tf.nest.flatten(structure)
    ]
  )
