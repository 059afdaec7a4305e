"""Wraps `tf.function`, with AutoGraph only for users' functions.

AutoGraph replaces Python's `if`, `while` and `for` by TensorFlow operations, in
a function and in all functions that it calls. This project's functions call
`tf.cond` and `tf.while_loop` themselves: rewriting them would take two to three
seconds for each process, and would change nothing.
"""

import functools
from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

_Function = TypeVar("_Function", bound=Callable[..., object])

graph_function = functools.partial(tf.function, autograph=False)


def with_autograph(function: _Function) -> _Function:
  """Lets a user's function branch and loop over tensors in Python.

  A `tf.function` is returned unchanged. So are functions of TFF and of this
  project, which have no such branches.
  """
  package = (getattr(function, "__module__", None) or "").split(".")[0]
  if package in ("tff_fair", "tensorflow_federated") or isinstance(
    function, tf.types.experimental.GenericFunction
  ):
    return function
  return tf.function(function)
