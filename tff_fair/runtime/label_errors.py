"""Says which client has a label that the model has no output for.

The data is looked at once a computation has failed, so others take no longer.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

# What the worker says of labels that a model has no output for. It names no
# client, or says only that clients beside that one were cancelled.
_OUT_OF_RANGE = re.compile(
  r"Received a label value of (-?\d+) which is outside the valid range of "
  r"\[0, (\d+)\)"
)
_CANCELLED = "was cancelled"

# Of a client alone, too, the worker may name an operation that it cancelled,
# and not the label. It is asked up to this many times.
_TRIES = 6


def explained(compute: Callable[[Any], Any], arg: Any) -> Any:
  """Returns `compute(arg)`.

  Args:
    compute: Has a worker compute something.
    arg: Structures of clients, datasets of `(client_id, batch)`, and values.

  Raises:
    ValueError: If a client has a label that the model has no output for.
  """
  try:
    return compute(arg)
  except Exception as error:
    found = _explanation(error, arg, compute) if _is_of_worker(error) else None
    if found is None:
      raise
    raise found from error


def _is_of_worker(error: Exception) -> bool:
  # Dask has a plain Exception for an error of gRPC's, which it cannot pickle.
  return isinstance(error, grpc.RpcError) or type(error) is Exception


def _explanation(
  error: Exception, arg: Any, compute: Callable[[Any], Any]
) -> ValueError | None:
  """Returns what is wrong with the labels of a client; None of other errors.

  Args:
    error: What the worker said.
    arg: What was computed with: datasets of `(client_id, batch)` in structures.
    compute: Computes the same with another argument.
  """
  found = _OUT_OF_RANGE.search(str(error))
  if found is None and _CANCELLED in str(error):
    found = next(_found_alone(arg, compute), None)
  if found is None:
    return None
  label, num_outputs = map(int, found.groups())
  # A worker that gets the data in another form leaves it to who has them.
  who = next(_clients_with(label, arg), None)
  if who is None:
    return None
  return ValueError(
    f"y of {who} has the label {label}; the model's outputs are for labels "
    f"from 0 to {num_outputs - 1}. Number the classes from 0, and give the "
    "model an output for each."
  )


def _found_alone(
  arg: Any, compute: Callable[[Any], Any]
) -> Iterator[re.Match[str]]:
  """Yields what the worker says of a label where a client is alone."""
  if not isinstance(arg, tff.structure.Struct):
    return
  members = tff.structure.to_elements(arg)
  for place, (name, values) in enumerate(members):
    if not (isinstance(values, (list, tuple)) and _are_datasets(values)):
      continue
    for value in values:
      alone = [*members[:place], (name, [value]), *members[place + 1 :]]
      said = _error_of(compute, tff.structure.Struct(alone))
      if found := _OUT_OF_RANGE.search(said):
        yield found
      elif said and _CANCELLED not in said:
        return  # This client fails for a reason of its own.


def _error_of(compute: Callable[[Any], Any], arg: Any) -> str:
  """Returns the worker's error for `arg`; empty where it computes it."""
  said = ""
  for _ in range(_TRIES):
    try:
      compute(arg)
      return ""
    except Exception as error:
      said = str(error)
    if _CANCELLED not in said:
      break
  return said


def _are_datasets(values: Any) -> bool:
  return all(isinstance(value, tf.data.Dataset) for value in values)


def _clients_with(label: int, arg: Any) -> Iterator[str]:
  """Yields the clients whose y has a label."""
  if isinstance(arg, tf.data.Dataset):
    for element in arg:
      if not (isinstance(element, tuple) and len(element) == 2):
        return
      client_id, batch = element
      y = batch["y"] if isinstance(batch, Mapping) else batch[-1]
      if np.any(np.asarray(y) == label):
        yield f"client {int(client_id)}"
  elif isinstance(arg, (list, tuple, tff.structure.Struct)):
    for member in arg:
      yield from _clients_with(label, member)
