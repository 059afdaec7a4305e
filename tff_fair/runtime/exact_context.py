"""TFF's own context, whose worker process ends with this program."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import tensorflow_federated as tff

from tff_fair.runtime import native, parts_context, private_tff

_MOST_CHARACTERS = 300


class _ExactContext(tff.framework.SyncContext):
  """Computes by TFF's context for native workers."""

  def __init__(self, *, simulate_secure_sums: bool, **options: Any) -> None:
    create = tff.backends.native.create_sync_local_cpp_execution_context
    self._context = create(**options)
    self._with_sums = native.with_sums(simulate_secure_sums)

  def invoke(self, comp: Any, arg: Any) -> Any:
    if self._context is None:
      raise RuntimeError(parts_context.CLOSED)
    try:
      return self._context.invoke(self._with_sums(comp), arg)
    except grpc.RpcError as error:
      text = str(error.details() if isinstance(error, grpc.Call) else error)
      first = text.strip().partition("\n")[0]
      raise RuntimeError(first[:_MOST_CHARACTERS]) from error

  def close(self) -> None:
    """Lets go of TFF's context, which ends its worker then."""
    self._context = None
    gc.collect()


@contextlib.contextmanager
def opened(**options: Any) -> Iterator[tff.framework.SyncContext]:
  """Yields TFF's context, and ends its worker."""
  private_tff.end_workers_with_program()
  with contextlib.closing(_ExactContext(**options)) as context:
    one = tff.tensorflow.computation(lambda: np.int32(1))
    context.invoke(one, None)  # TFF starts its worker at the first call.
    yield context
