"""Values in a portable form, which Dask pickles and moves.

The form is that of `values`, with arrays for tensors and graphs for datasets.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import tensorflow as tf

from tff_fair.runtime import values

# The number of clients' datasets that a worker keeps. It need not build these
# again, and its runtime recognizes them.
_MOST_DATASETS = 256
# The graphs of datasets, kept since a client may be sampled again.
_graphs: weakref.WeakKeyDictionary[tf.data.Dataset, values.SerializedData] = (
  weakref.WeakKeyDictionary()
)


def to_portable(value: values.Value) -> values.Value:
  """Returns the portable form of a value from `values`."""
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
  """Returns a portable value, with datasets built from `DataAtWorker`s."""
  if type(value) in (tuple, list):
    return type(value)(map(with_built_data, value))
  return _built(value) if isinstance(value, values.DataAtWorker) else value


@functools.lru_cache(_MOST_DATASETS)
def _built(data: values.DataAtWorker) -> tf.data.Dataset:
  return data.build(data.client_id)
