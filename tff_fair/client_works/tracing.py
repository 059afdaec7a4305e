"""`tf.function` with AutoGraph for the user's functions alone.

AutoGraph rewrites Python's `if`, `while` and `for` as TensorFlow's, in all that
a function calls. Ours call `tf.cond` and `tf.while_loop` themselves: to rewrite
them would take two to three seconds of each process, and change nothing.
"""

import functools
from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

_Function = TypeVar("_Function", bound=Callable[..., object])

# As a decorator; for functions of ours.
graph_function = functools.partial(tf.function, autograph=False)


def with_autograph(function: _Function) -> _Function:
  """Returns a user's function, which may branch and loop over tensors.

  A `tf.function` stays as it is, and so does TFF's, or ours, which have no such
  branches.
  """
  package = (getattr(function, "__module__", None) or "").split(".")[0]
  if package in ("tff_fair", "tensorflow_federated") or isinstance(
    function, tf.types.experimental.GenericFunction
  ):
    return function
  return tf.function(function)
