"""Computes calls in a Dask worker, in its own process."""

import functools
from typing import Any

import distributed
import tensorflow_federated as tff

from tff_fair.runtime import local_context, native
from tff_fair.runtime.dask_engine import portable_values

# A run has several computations for its rounds, and several for evaluations.
_MOST_COMPUTATIONS = 64


def compute(content: bytes, arg: Any) -> Any:
  """Calls a compiled computation; argument and result are portable values."""
  found = context().call(_read(content), portable_values.with_built_data(arg))
  return portable_values.to_portable(found.value)


# Returns the same object for the same content, so its graph is built once.
@functools.lru_cache(_MOST_COMPUTATIONS)
def _read(content: bytes) -> tff.Computation:
  return native.NativeComputation.read(content, lambda type_spec: type_spec)


@functools.cache
def context() -> local_context.LocalContext:
  """Returns the context of this process."""
  local_context.keep_freed_memory()
  return local_context.LocalContext(
    clients_per_part=0,
    clients_at_a_time=distributed.get_worker().state.nthreads,
  )
