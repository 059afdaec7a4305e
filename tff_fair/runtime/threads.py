"""Threads that wait for workers, so that the program need not.

All are daemons: none keeps a program alive that is interrupted in a round.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class LoopThread:
  """An event loop in a thread of its own."""

  def __init__(self) -> None:
    """Starts the thread."""
    self._loop = asyncio.new_event_loop()
    self._thread = threading.Thread(target=self._run, daemon=True)
    self._thread.start()

  def _run(self) -> None:
    with contextlib.closing(self._loop):
      self._loop.run_forever()
      self._loop.run_until_complete(_cancel_others())

  def submit(
    self, work: Coroutine[Any, Any, _Result]
  ) -> concurrent.futures.Future[_Result]:
    """Starts a coroutine in the thread; returns the result to come."""
    return asyncio.run_coroutine_threadsafe(work, self._loop)

  def close(self, *, patience: float = 0.0) -> None:
    """Ends the thread, and waits so many seconds for it."""
    self._loop.call_soon_threadsafe(self._loop.stop)
    self._thread.join(timeout=patience)


async def _cancel_others() -> None:
  """Ends the tasks that were given up; asyncio would write a line for each."""
  others = asyncio.all_tasks() - {asyncio.current_task()}
  for task in others:
    task.cancel()
  await asyncio.gather(*others, return_exceptions=True)


def in_thread(
  compute: Callable[[], _Result],
) -> concurrent.futures.Future[_Result]:
  """Computes in a thread for it alone; returns the result to come."""
  result: concurrent.futures.Future[_Result] = concurrent.futures.Future()

  def run() -> None:
    # The caller may have cancelled it.
    with contextlib.suppress(concurrent.futures.InvalidStateError):
      try:
        result.set_result(compute())
      except BaseException as error:
        result.set_exception(error)

  threading.Thread(target=run, daemon=True).start()
  return result


def finished(work: Coroutine[Any, Any, _Result]) -> _Result:
  """Returns the result of a coroutine that never has to wait.

  It needs no event loop: it runs in the thread that called.

  Raises:
    RuntimeError: If it has to wait.
  """
  try:
    work.send(None)
  except StopIteration as end:
    result: _Result = end.value
    return result
  raise RuntimeError("A coroutine that never waits has to wait.")
