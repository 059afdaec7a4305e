"""Waits for computations: looks now and then whether to go on waiting."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tff_fair.runtime import threads

# How often to look. A signal handler only takes notes, so this is how long one
# a user who ends the program waits for it.
_SECONDS_PER_LOOK = 0.2


class WorkerLostError(RuntimeError):
  """The workers that computed something were lost, one after the other."""


def _nothing(*_: object) -> None:
  pass


@dataclasses.dataclass(frozen=True)
class Supervision:
  """How to wait, as `supervised` takes it."""

  check: Callable[[], None] = _nothing
  say: Callable[[str], None] = _nothing


_current: Supervision | None = None


@contextlib.contextmanager
def supervised(
  *,
  check: Callable[[], None] = _nothing,
  say: Callable[[str], None] = _nothing,
) -> Iterator[None]:
  """Looks, while computations last, whether they are to end.

  Args:
    check: Is called several times a second while a computation lasts; what it
      raises ends the wait and the computation.
    say: Takes a line that the user should read.
  """
  global _current  # noqa: PLW0603
  former = _current
  _current = Supervision(check, say)
  try:
    yield
  finally:
    _current = former


def current() -> Supervision | None:
  """Returns how to wait; None to wait as long as it takes."""
  return _current


def wait(call: threads.Call) -> Any:
  """Returns the result of a computation; cancels it if the wait ends early."""
  try:
    if _current is None:
      return call.result.result()
    _current.check()
    while True:
      with contextlib.suppress(TimeoutError):  # The look's, or its own.
        call.result.result(timeout=_SECONDS_PER_LOOK)
      if call.result.done():  # It may have ended since the look.
        return call.result.result()
      _current.check()
  except BaseException as error:
    if not call.result.done():
      threads.note_exit(error)
      call.cancel()
    raise


# The clients that have begun, in graphs and outside of them.


@functools.cache
def _count() -> tf.Variable:
  with tf.init_scope(), tf.device("CPU:0"):
    return tf.Variable(0, dtype=tf.int64, trainable=False)


def count_client() -> tf.Operation | None:
  """Counts one more; in a graph, returns the operation that does."""
  return tf.raw_ops.AssignAddVariableOp(
    resource=_count().handle, value=tf.constant(1, tf.int64)
  )


def num_begun() -> int:
  """Returns how many clients have begun; each pass over its data counts."""
  return int(_count().numpy())
