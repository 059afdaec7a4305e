"""Computes calls in a Dask worker, in its own process.

Arguments and results have a portable form, which Dask can pickle and move: the
form that `values` describes, but with arrays in place of tensors, and with
serialized graphs in place of datasets.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import distributed
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import local_context, native, values

# A run has several computations for its rounds, and several for evaluations.
_MOST_COMPUTATIONS = 64
# How many clients' datasets a worker keeps, so that it need not build them
# again, and the runtime recognizes them.
_MOST_DATASETS = 256
# The graphs of datasets, cached since a client may be sampled again.
_graphs: weakref.WeakKeyDictionary[tf.data.Dataset, values.SerializedData] = (
  weakref.WeakKeyDictionary()
)


def compute(content: bytes, arg: Any) -> Any:
  """Calls a compiled computation; argument and result are portable values."""
  found = context().call(_read(content), with_built_data(arg))
  return to_portable(found.value)


# For the same content, this returns the same object, whose graph is built once.
@functools.lru_cache(_MOST_COMPUTATIONS)
def _read(content: bytes) -> tff.Computation:
  return native.NativeComputation.read(content, lambda type_spec: type_spec)


@functools.cache
def context() -> local_context.LocalContext:
  """Returns the context that computes all calls in this worker's process."""
  local_context.keep_freed_memory()
  return local_context.LocalContext(
    clients_per_part=0,
    clients_at_a_time=distributed.get_worker().state.nthreads,
  )


def to_portable(value: values.Value) -> values.Value:
  """Converts a value in the form of `values` to the portable form."""
  if type(value) in (tuple, list):
    return type(value)(map(to_portable, value))
  if isinstance(value, tf.Tensor | tf.Variable):
    return value.numpy()
  if not isinstance(value, tf.data.Dataset):
    return value
  if value not in _graphs:
    _graphs[value] = values.SerializedData(values.serialize(value))
  return _graphs[value]


def with_built_data(value: Any) -> Any:
  """Replaces each `DataAtWorker` in a portable value by its dataset."""
  if type(value) in (tuple, list):
    return type(value)(map(with_built_data, value))
  return _built(value) if isinstance(value, values.DataAtWorker) else value


@functools.lru_cache(_MOST_DATASETS)
def _built(data: values.DataAtWorker) -> tf.data.Dataset:
  return data.build(data.client_id)
