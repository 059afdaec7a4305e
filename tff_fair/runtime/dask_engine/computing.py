"""Computes calls in a Dask worker, in a TFF runtime of this process."""

import contextlib
import functools
import logging
import threading
from typing import Any

import distributed
import tensorflow_federated as tff

from tff_fair.runtime import native, supervised_contexts, supervision
from tff_fair.runtime.dask_engine import portable_values

# A run has some for its rounds and some for its evaluations.
_MOST_COMPUTATIONS = 64
# Dask's own number is small: each round would return its memory to the system.
_ENVIRONMENT = {"MALLOC_TRIM_THRESHOLD_": str(2**40)}

_starting = threading.Lock()


def compute(content: bytes, arg: Any) -> Any:
  """Computes a call.

  Args:
    content: The computation, as `native.NativeComputation.content` returns it.
    arg: Its argument in portable form, see `portable_values`.

  Returns:
    The result in portable form.

  Raises:
    WorkerLostError: If the runtime's workers are lost again and again.
  """
  comp = _read(content)
  parameter = comp.type_signature.parameter
  given = (
    None if parameter is None else portable_values.structured(arg, parameter)
  )
  result = context().invoke(comp, given)
  return portable_values.portable(result, comp.type_signature.result)


# The same object gives the same computation, which the runtime knows then.
@functools.lru_cache(_MOST_COMPUTATIONS)
def _read(content: bytes) -> tff.Computation:
  return native.NativeComputation.read(content, lambda type_spec: type_spec)


def context() -> tff.framework.SyncContext:
  """Returns the context of this process; the first call starts its worker."""
  with _starting:
    return _context()


@functools.cache
def _context() -> tff.framework.SyncContext:
  if supervision.current() is None:
    # For as long as this process lives: lost workers are replaced.
    contextlib.ExitStack().enter_context(
      supervision.supervised(say=logging.getLogger("distributed").warning)
    )
  with contextlib.ExitStack() as opened:
    local = supervised_contexts.LocalContext(
      opened,
      clients_per_part=0,
      max_concurrent_computation_calls=distributed.get_worker().state.nthreads,
      environment=_ENVIRONMENT,
    )
    opened.pop_all()
  return local
