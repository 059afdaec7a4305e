"""Errors of computations, in one line that names the client.

A graph of all clients does not say which one failed. So where one fails, it is
computed again step by step.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import stepwise, threads, values

# What TensorFlow says of labels that a model has no output for.
_OUT_OF_RANGE = re.compile(
  r"Received a label value of (-?\d+) which is outside the valid range of "
  r"\[0, (\d+)\)"
)
# Where TensorFlow says which operation failed, and who made it.
_PLACES = re.compile(
  r"(?s)^Graph execution error:\s*|Detected at node.*?(?=\n\S*\n\S)|"
  r"\s*\[\[\{\{node.*$|\n\nOriginal stack trace.*$|\nTraceback \(most.*$"
)
_MOST_CHARACTERS = 240


@contextlib.contextmanager
def explained(
  arg: values.Value,
  parameter: tff.Type | None,
  step_by_step: Callable[[], Any] | None,
) -> Iterator[None]:
  """Raises errors of TensorFlow's as those of a client."""
  try:
    yield
  except stepwise.ClientError as error:
    raise _of_client(error, arg, parameter) from error.error
  except tf.errors.CancelledError:
    raise
  except tf.errors.ResourceExhaustedError as error:
    raise RuntimeError(
      f"The memory is not enough ({in_one_line(error)}): take smaller batches, "
      "or use_local(max_concurrent_computation_calls=1)."
    ) from error
  except tf.errors.OpError as error:
    threads.check()
    if step_by_step is not None:
      with contextlib.suppress(tf.errors.OpError):
        try:
          step_by_step()
        except stepwise.ClientError as of_client:
          raise _of_client(of_client, arg, parameter) from error
    raise RuntimeError(in_one_line(error)) from error


def in_one_line(error: Exception) -> str:
  """Returns the message of an error, without its place."""
  message = error.message if isinstance(error, tf.errors.OpError) else error
  text = _PLACES.sub("", str(message or error)).strip()
  lines = [line.strip() for line in text.splitlines() if line.strip()]
  short = " ".join(lines)[:_MOST_CHARACTERS]
  is_op_error = isinstance(error, tf.errors.OpError)
  return short if is_op_error and short else f"{type(error).__name__}: {short}"


def _of_client(
  error: stepwise.ClientError, arg: values.Value, parameter: tff.Type | None
) -> Exception:
  if isinstance(
    error.error, (concurrent.futures.CancelledError, tf.errors.CancelledError)
  ):
    return error.error
  client = _name(error.client, arg, parameter)
  found = _OUT_OF_RANGE.search(str(error.error))
  if found is None:
    return RuntimeError(f"{client}: {in_one_line(error.error)}")
  label, num_outputs = map(int, found.groups())
  return ValueError(
    f"y of {client} has the label {label}; the model's outputs are for labels "
    f"from 0 to {num_outputs - 1}. Number the classes from 0, and give the "
    "model an output for each."
  )


def _name(number: int, arg: values.Value, parameter: tff.Type | None) -> str:
  """Returns a client's id if its data has one, else its place."""
  if (
    isinstance(parameter, tff.FederatedType)
    and values.is_at_clients(parameter)
    and isinstance(parameter.member, tff.SequenceType)
  ):
    with contextlib.suppress(Exception):  # Its data may be what fails.
      data = arg[number]
      if not isinstance(data, tf.data.Dataset):
        data = values.returned(data, parameter.member)
      for client_id, _ in data.take(1):
        return f"client {int(client_id)}"
  elif isinstance(parameter, tff.StructType):
    for part, part_type in zip(arg, parameter, strict=True):
      name = _name(number, part, part_type)
      if not name.endswith("cohort"):
        return name
  return f"client number {number + 1} of the cohort"
