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

_SECONDS_TO_END = 5.0
# Waits until the pipe from this program closes, then ends a process.
_WATCH = 'read -r _; kill -KILL "$0" 2>/dev/null'


class _ExactContext(tff.framework.SyncContext):
  """Computes by TFF's context for native workers."""

  def __init__(self, *, simulate_secure_sums: bool, **options: Any) -> None:
    create = tff.backends.native.create_sync_local_cpp_execution_context
    self._context = create(**options)
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
    return self._context.invoke(self._with_sums(comp), arg)

  def close(self) -> None:
    """Lets go of TFF's context, which ends its worker then."""
    self._context = None
    gc.collect()


@contextlib.contextmanager
def opened(**options: Any) -> Iterator[tff.framework.SyncContext]:
  """Yields TFF's context, and ends its worker.

  Args:
    **options: Those of TFF's context, and `simulate_secure_sums`.
  """
  this = psutil.Process()
  before = {child.pid for child in this.children()}
  context = _ExactContext(**options)
  one = tff.tensorflow.computation(lambda: np.int32(1))
  context.invoke(one, None)  # TFF starts its worker at the first call.
  started = [
    child
    for child in this.children()
    if child.pid not in before and child.name() == "worker_binary"
  ]
  watchers = [
    subprocess.Popen(
      ["/bin/sh", "-c", _WATCH, str(worker.pid)],
      stdin=subprocess.PIPE,
      stdout=subprocess.DEVNULL,
      stderr=subprocess.DEVNULL,
      start_new_session=True,
    )
    for worker in started
  ]
  try:
    yield context
  finally:
    context.close()
    psutil.wait_procs(started, timeout=_SECONDS_TO_END)
    for watcher in watchers:
      watcher.communicate()
