"""The context that computes in this program."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import (
  admission,
  native,
  parts_context,
  stepwise,
  tff_internals,
  threads,
  values,
)
from tff_fair.runtime.one_graph import whole_graph
from tff_fair.runtime.parts import cohort_cuts, part_by_part

FORKED_MESSAGE = (
  "This process was forked from one that had computed, and TensorFlow's "
  'threads do not survive that. Start it with multiprocessing\'s "spawn", or '
  "fork before the first computation."
)
# Python calls exit handlers in reverse order. So this one runs before
# TensorFlow's own, which is already registered.
atexit.register(threads.exit_if_computing)

# The id of the process that computed first: this one, or one that it was forked
# from.
_computing_process: int | None = None


def check_not_forked() -> None:
  """Raises `RuntimeError` in a process forked from one that had computed."""
  if _computing_process not in (None, os.getpid()):
    raise RuntimeError(FORKED_MESSAGE)


class LocalContext(parts_context.PartsContext):
  """Computes cohorts as one graph, in parts, or step by step."""

  def __init__(
    self,
    clients_per_part: int,
    *,
    default_num_clients: int = 0,
    simulate_secure_sums: bool = False,
    clients_at_a_time: int | None = None,
  ) -> None:
    """Takes the options of `use_local`."""
    super().__init__(
      self, clients_per_part, simulate_secure_sums=simulate_secure_sums
    )
    # TensorFlow refuses this if it has started its threads already.
    with contextlib.suppress(RuntimeError):
      tf.config.threading.set_intra_op_parallelism_threads(
        threads.threads_per_operation()
      )
    self._default_num_clients = default_num_clients
    self.clients_at_a_time = clients_at_a_time or threads.num_cores()
    self._specs = values.DataSpecs()

  def invoke(self, comp: Any, arg: Any) -> Any:
    """Computes `comp(arg)`."""
    global _computing_process  # noqa: PLW0603
    check_not_forked()
    _computing_process = os.getpid()
    return super().invoke(comp, arg)

  def _cut(
    self, comp: tff.Computation, arg: Any
  ) -> tuple[cohort_cuts.Phases, int] | None:
    # Evaluations return a small row per client: parts would save no memory, and
    # take longer.
    if cohort_cuts.returns_rows(comp.type_signature.result):
      return None
    return super()._cut(comp, arg)

  def put(self, value: Any, type_spec: tff.Type) -> values.TypedValue:
    """Returns a value in the form that `call` takes."""
    found = values.ingest(value, type_spec, self._specs)
    return values.TypedValue(found, type_spec)

  def fetch(self, result: values.TypedValue) -> Any:
    """Returns the value of a call's result, as TFF's contexts return it."""
    return values.to_containers(result.value, result.type_spec)

  def call(self, comp: tff.Computation, *args: Any) -> values.TypedValue:
    """Computes `comp(*args)` in this thread; later calls accept the result."""
    arg = part_by_part.pack_arguments(args)
    parameter = comp.type_signature.parameter
    result_type = comp.type_signature.result
    given = (
      None if parameter is None else values.ingest(arg, parameter, self._specs)
    )
    number = values.num_clients(given, parameter)
    if number is None:
      number = self._default_num_clients
    arguments = [*whole_graph.placed_values(given, parameter)]

    def step_by_step() -> Any:
      try:
        return _steps(comp)(given, number)
      except stepwise.UnsupportedError as error:
        raise NotImplementedError(
          f"This runtime cannot compute {error}: "
          "tff_fair.runtime.use_local(exact=True) leaves it to TensorFlow "
          "Federated."
        ) from error

    graph = whole_graph.try_build(
      comp, arguments, lambda: _message(comp), self.clients_at_a_time
    )
    again = step_by_step if graph is not None else None
    with _explain_errors(given, parameter, again):
      if graph is not None:
        return values.TypedValue(graph(arguments, number), result_type)
      return values.TypedValue(step_by_step(), result_type)


def _message(comp: tff.Computation) -> admission.Message:
  """Returns a computation in the form that TFF compiles for native workers."""
  return tff_internals.cached_on(
    comp,
    "compiled",
    lambda: tff.framework.serialize_computation(native.compile_now(comp)),
  )


def _steps(comp: tff.Computation) -> stepwise.StepwiseComputation:
  return tff_internals.cached_on(
    comp, "step by step", lambda: stepwise.StepwiseComputation(_message(comp))
  )


# Errors, in one line that names the client.


# TensorFlow's message for labels that a model has no output for.
_OUT_OF_RANGE = re.compile(
  r"Received a label value of (-?\d+) which is outside the valid range of "
  r"\[0, (\d+)\)"
)
# The part of a message that names the operation, and where it was created.
_PLACES = re.compile(
  r"(?s)^Graph execution error:\s*|Detected at node.*?(?=\n\S*\n\S)|"
  r"\s*\[\[\{\{node.*$|\n\nOriginal stack trace.*$|\nTraceback \(most.*$"
)
_MOST_CHARACTERS = 240


@contextlib.contextmanager
def _explain_errors(
  arg: values.Value,
  parameter: tff.Type | None,
  step_by_step: Callable[[], Any] | None,
) -> Iterator[None]:
  """Turns TensorFlow's errors into errors that name the client.

  A graph of all clients does not show which client failed, so the computation
  is repeated step by step.
  """
  try:
    yield
  except stepwise.ClientError as error:
    raise _client_error(error, arg, parameter) from error.error
  except tf.errors.CancelledError:
    raise
  except tf.errors.ResourceExhaustedError as error:
    raise RuntimeError(
      f"There is not enough memory ({_one_line_message(error)}): take smaller "
      "batches, or use_local(max_concurrent_computation_calls=1)."
    ) from error
  except tf.errors.OpError as error:
    threads.check_not_cancelled()
    if step_by_step is not None:
      with contextlib.suppress(tf.errors.OpError):
        try:
          step_by_step()
        except stepwise.ClientError as of_client:
          raise _client_error(of_client, arg, parameter) from error
    raise RuntimeError(_one_line_message(error)) from error


def _one_line_message(error: Exception) -> str:
  """Returns the message of an error, without the operation's name and place."""
  message = error.message if isinstance(error, tf.errors.OpError) else error
  text = _PLACES.sub("", str(message or error)).strip()
  lines = [line.strip() for line in text.splitlines() if line.strip()]
  short = " ".join(lines)[:_MOST_CHARACTERS]
  is_op_error = isinstance(error, tf.errors.OpError)
  return short if is_op_error and short else f"{type(error).__name__}: {short}"


def _client_error(
  error: stepwise.ClientError, arg: values.Value, parameter: tff.Type | None
) -> Exception:
  if isinstance(
    error.error, (concurrent.futures.CancelledError, tf.errors.CancelledError)
  ):
    return error.error
  client = _name(error.client, arg, parameter)
  found = _OUT_OF_RANGE.search(str(error.error))
  if found is None:
    return RuntimeError(f"{client}: {_one_line_message(error.error)}")
  label, num_outputs = map(int, found.groups())
  return ValueError(
    f"y of {client} has the label {label}; the model's outputs are for labels "
    f"from 0 to {num_outputs - 1}. Number the classes from 0, and give the "
    "model an output for each."
  )


def _name(number: int, arg: values.Value, parameter: tff.Type | None) -> str:
  """Returns a client's id if its data has one, else its position."""
  if (
    isinstance(parameter, tff.FederatedType)
    and values.is_at_clients(parameter)
    and isinstance(parameter.member, tff.SequenceType)
  ):
    with contextlib.suppress(Exception):  # Reading the data may be what failed.
      data = arg[number]
      if not isinstance(data, tf.data.Dataset):
        data = values.to_structs(data, parameter.member)
      for client_id, _ in data.take(1):
        return f"client {int(client_id)}"
  elif isinstance(parameter, tff.StructType):
    for part, part_type in zip(arg, parameter, strict=True):
      name = _name(number, part, part_type)
      if not name.endswith("cohort"):
        return name
  return f"client number {number + 1} of the cohort"
