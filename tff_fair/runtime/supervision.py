"""Waits for computations, and checks regularly whether to stop waiting."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from tff_fair.runtime import threads

# The time between checks. A signal handler only sets a flag, so a user who ends
# the program may wait this long.
_POLL_SECONDS = 0.2


class WorkerLostError(RuntimeError):
  """A computation has lost its workers, or their scheduler."""


def _nothing(*_: object) -> None:
  pass


@dataclasses.dataclass(frozen=True)
class Supervision:
  """The functions that a block of `supervised` sets."""

  check: Callable[[], None] = _nothing
  say: Callable[[str], None] = _nothing


_current: Supervision | None = None


@contextlib.contextmanager
def supervised(
  *,
  check: Callable[[], None] = _nothing,
  say: Callable[[str], None] = _nothing,
) -> Iterator[None]:
  """Calls `check` while computations in the block run, so that it can end them.

  Args:
    check: Called several times a second while a computation runs; an error that
      it raises ends the wait and the computation.
    say: Shows the user a line of text.
  """
  global _current  # noqa: PLW0603
  former = _current
  _current = Supervision(check, say)
  try:
    yield
  finally:
    _current = former


def current() -> Supervision | None:
  """Returns the functions of `supervised`; `None` outside of its block."""
  return _current


def wait(call: threads.Call) -> Any:
  """Returns the result of a computation; cancels it if the wait ends early."""
  supervision = _current  # Another thread may change `_current` meanwhile.
  try:
    if supervision is None:
      return call.result.result()
    supervision.check()
    while True:
      with contextlib.suppress(TimeoutError):  # The call may raise it, too.
        call.result.result(timeout=_POLL_SECONDS)
      if call.result.done():  # The call may have ended after the timeout.
        return call.result.result()
      supervision.check()
  except BaseException as error:
    if not call.result.done():
      threads.record_exit_status(error)
      call.cancel()
    raise


# Counts the clients whose computation has begun, in a graph or step by step.


@functools.cache
def _count() -> tf.Variable:
  with tf.init_scope(), tf.device("CPU:0"):
    return tf.Variable(0, dtype=tf.int64, trainable=False)


def count_client() -> tf.Operation | None:
  """Counts one client; in a graph, returns the operation that counts it."""
  return tf.raw_ops.AssignAddVariableOp(
    resource=_count().handle, value=tf.constant(1, tf.int64)
  )


def num_started_clients() -> int:
  """Returns how many passes over clients' datasets this process has begun."""
  return int(_count().numpy())
