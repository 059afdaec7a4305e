"""Wraps `tf.function`, with AutoGraph only for users' functions.

AutoGraph replaces Python's `if`, `while` and `for` by TensorFlow operations, in
a function and in all functions that it calls. This project's functions call
`tf.cond` and `tf.while_loop` themselves, so AutoGraph would change nothing in
them, but take two to three seconds for each process.
"""

import functools
from collections.abc import Callable
from typing import TypeVar

import tensorflow as tf

_Function = TypeVar("_Function", bound=Callable[..., object])

graph_function = functools.partial(tf.function, autograph=False)


def with_autograph(function: _Function) -> _Function:
  """Lets a user's function branch and loop over tensors in Python.

  A `tf.function` is returned unchanged. So is a function of TFF or of this
  project, because these do not branch or loop over tensors in Python.
  """
  package = (getattr(function, "__module__", None) or "").split(".")[0]
  if package in ("tff_fair", "tensorflow_federated") or isinstance(
    function, tf.types.experimental.GenericFunction
  ):
    return function
  return tf.function(function)
