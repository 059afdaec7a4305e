"""Computes calls in a Dask worker, in its own process."""

import functools
from typing import Any

import distributed
import tensorflow_federated as tff

from tff_fair.runtime import local_context, memory, native
from tff_fair.runtime.dask_engine import portable_values

# A run has some for its rounds and some for its evaluations.
_MOST_COMPUTATIONS = 64


def compute(content: bytes, arg: Any) -> Any:
  """Computes a call."""
  comp = _read(content)
  parameter = comp.type_signature.parameter
  given = (
    None if parameter is None else portable_values.structured(arg, parameter)
  )
  result = context().invoke(comp, given)
  return portable_values.portable(result, comp.type_signature.result)


# The same object gives the same computation, whose graph is built then.
@functools.lru_cache(_MOST_COMPUTATIONS)
def _read(content: bytes) -> tff.Computation:
  return native.NativeComputation.read(content, lambda type_spec: type_spec)


@functools.cache
def context() -> tff.framework.SyncContext:
  """Returns the context of this process."""
  memory.keep_freed()
  return local_context.LocalContext(
    clients_per_part=0,
    clients_at_a_time=distributed.get_worker().state.nthreads,
  )
