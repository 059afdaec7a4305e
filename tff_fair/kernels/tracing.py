"""Traces functions of hundreds of operations once, for all graphs.

If each graph traced such a function again, all the copies would stay in memory.
"""

import atexit
import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

MATRIX, VECTOR, SCALAR = (
  tf.TensorSpec([None] * rank, tf.float64) for rank in (2, 1, 0)
)


@functools.cache
def traced_once(
  function: Callable[..., Any], *specs: tf.TensorSpec
) -> Callable[..., Any]:
  """Returns `function` of tensors of these specs, which all graphs can call."""
  with tf.init_scope():
    return tf.function(function, autograph=False).get_concrete_function(*specs)


# TensorFlow cannot delete a function after its own modules are unloaded.
atexit.register(traced_once.cache_clear)
