"""Waits for coroutines, also where an event loop runs already, as in notebooks.

TFF's managers of states and releases are asynchronous; the rounds of a run come
one after the other.
"""

import asyncio
import concurrent.futures
from collections.abc import Coroutine
from typing import TypeVar

_T = TypeVar("_T")


def wait(coroutine: Coroutine[object, object, _T]) -> _T:
  """Returns the result of a coroutine, which runs in a thread of its own.

  The caller's thread may have an event loop, and keeps its signals.
  """
  with concurrent.futures.ThreadPoolExecutor(max_workers=1) as executor:
    return executor.submit(lambda: asyncio.run(coroutine)).result()
