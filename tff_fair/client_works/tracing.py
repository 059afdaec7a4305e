"""`tf.function`, with AutoGraph only for the user's functions.

AutoGraph rewrites Python's `if`, `while` and `for` as TensorFlow's, in all that
a function calls. Ours call `tf.cond` and `tf.while_loop` themselves: rewriting
them would cost each process two to three seconds, and change nothing.
"""

import functools
from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

_Function = TypeVar("_Function", bound=Callable[..., object])

# A decorator for our own functions.
graph_function = functools.partial(tf.function, autograph=False)


def with_autograph(function: _Function) -> _Function:
  """Lets a user's function branch and loop over tensors in Python.

  A `tf.function` stays as it is, and so do TFF's functions and ours, which have
  no such branches.
  """
  package = (getattr(function, "__module__", None) or "").split(".")[0]
  if package in ("tff_fair", "tensorflow_federated") or isinstance(
    function, tf.types.experimental.GenericFunction
  ):
    return function
  return tf.function(function)
