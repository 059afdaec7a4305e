"""TFF's own context, whose worker process ends with this program.

TFF ends its worker when Python drops the context, which fails when the program
is already half gone: the worker outlives it and holds its output open, so that
`program | tee log` never returns. So here a shell waits for the end of this
program, however that comes, and ends the worker.
"""

from __future__ import annotations

import contextlib
import gc
import subprocess
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import tensorflow_federated as tff

from tff_fair.runtime import native

# Waits until the pipe from this program closes, then ends a worker. Where that
# has ended, its number may be another process's.
_WATCH = """read -r _
grep -q worker_binary "/proc/$0/cmdline" && kill -KILL "$0"
"""


class _Workers:
  """TFF's worker, and those that TFF starts in place of one that is lost."""

  def __init__(self) -> None:
    self._program = psutil.Process()
    self._others = {child.pid for child in self._program.children()}
    self._watchers: dict[int, subprocess.Popen[bytes]] = {}

  def watch(self) -> None:
    """Has the workers that are there end with this program."""
    for child in self._program.children():
      if child.pid in self._others or child.pid in self._watchers:
        continue
      with contextlib.suppress(psutil.NoSuchProcess):
        if child.name() == "worker_binary":
          self._watchers[child.pid] = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, str(child.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
          )

  def end(self) -> None:
    """Ends the workers that TFF has not ended."""
    self.watch()
    for watcher in self._watchers.values():
      watcher.communicate()


class _ExactContext(tff.framework.SyncContext):
  """Computes by TFF's context for native workers."""

  def __init__(self, *, simulate_secure_sums: bool, **options: Any) -> None:
    create = tff.backends.native.create_sync_local_cpp_execution_context
    self._context = create(**options)
    self._workers = _Workers()
    self._with_sums = (
      native.in_the_clear
      if simulate_secure_sums
      else native.without_secure_sums
    )

  def invoke(self, comp: Any, arg: Any) -> Any:
    if self._context is None:
      raise RuntimeError(
        "This context was replaced. Call tff_fair.runtime.use_local."
      )
    try:
      return self._context.invoke(self._with_sums(comp), arg)
    finally:
      self._workers.watch()

  def close(self) -> None:
    """Lets go of TFF's context, which ends its worker then."""
    self._context = None
    gc.collect()
    self._workers.end()


@contextlib.contextmanager
def opened(**options: Any) -> Iterator[tff.framework.SyncContext]:
  """Yields TFF's context, and ends its worker.

  Args:
    **options: Those of TFF's context, and `simulate_secure_sums`.
  """
  with contextlib.closing(_ExactContext(**options)) as context:
    one = tff.tensorflow.computation(lambda: np.int32(1))
    context.invoke(one, None)  # TFF starts its worker at the first call.
    yield context
