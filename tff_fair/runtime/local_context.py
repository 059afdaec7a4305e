"""Computes in this process: the context of `use_local` and Dask workers."""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import ctypes
import os
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import (
  admission,
  native,
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
# Parameters of `mallopt`, from glibc's malloc.h.
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4
_M_ARENA_MAX = -8
_MOST_BYTES_KEPT = 2**30
_MOST_HEAPS = 4
# Python calls exit handlers in reverse order. So this one runs before
# TensorFlow's own, which is already registered.
atexit.register(threads.exit_if_computing)

# The id of the process that computed first: this process, or one from which it
# was forked.
_computing_process: int | None = None


def check_not_forked() -> None:
  """Raises `RuntimeError` in a process forked from one that had computed."""
  if _computing_process not in (None, os.getpid()):
    raise RuntimeError(FORKED_MESSAGE)


def keep_freed_memory() -> None:
  """Makes glibc keep up to 1 GiB of the memory that this program frees.

  A round allocates and frees the same large tensors over and over. By default,
  glibc returns their memory to the kernel at once, and every reuse causes page
  faults again: in a round of a small model, we measured six times as many page
  faults. These settings put even the largest tensors on the heap, and limit the
  number of heaps, so that threads can reuse memory that another thread freed.
  """
  mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
  if mallopt is not None:
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_ARENA_MAX, min(threads.num_cores(), _MOST_HEAPS))
    mallopt(_M_TRIM_THRESHOLD, _MOST_BYTES_KEPT)


class LocalContext(part_by_part.PartsContext):
  """Computes a cohort in one graph if possible, otherwise step by step.

  Cohorts of more than `clients_per_part` clients are computed part by part.
  """

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
    """Converts a value to the form that `call` takes as an argument."""
    found = values.ingest(value, type_spec)
    return values.TypedValue(found, type_spec)

  def fetch(self, result: values.TypedValue) -> Any:
    """Returns the value of a call's result, as TFF's contexts return it."""
    return values.to_containers(result.value, result.type_spec)

  def call(self, comp: tff.Computation, *args: Any) -> values.TypedValue:
    """Computes `comp(*args)` in this thread; `fetch` converts the result."""
    arg = part_by_part.pack_arguments(args)
    parameter = comp.type_signature.parameter
    result_type = comp.type_signature.result
    given = None if parameter is None else values.ingest(arg, parameter)
    parts = [*values.placed_parts(given, parameter)]
    number = values.num_clients(parts)
    if number is None:
      number = self._default_num_clients

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
      comp, parts, lambda: _message(comp), self.clients_at_a_time
    )
    again = step_by_step if graph is not None else None
    with _explain_errors(parts, again):
      if graph is not None:
        arguments = [value for value, _ in parts]
        return values.TypedValue(graph(arguments, number), result_type)
      return values.TypedValue(step_by_step(), result_type)


def _message(comp: tff.Computation) -> admission.Message:
  """Returns the message to which TFF compiles `comp`; compiles it only once."""
  return tff_internals.cached_on(
    comp, "compiled", lambda: native.compile_now(comp)
  )


def _steps(comp: tff.Computation) -> stepwise.StepwiseComputation:
  return tff_internals.cached_on(
    comp, "step by step", lambda: stepwise.StepwiseComputation(_message(comp))
  )


# One-line error messages that name the client.


_Parts: TypeAlias = Sequence[tuple[values.Value, tff.Type]]
# TensorFlow's message if a model has no output for a label.
_OUT_OF_RANGE = re.compile(
  r"Received a label value of (-?\d+) which is outside the valid range of "
  r"\[0, (\d+)\)"
)
# The parts of a message that name an operation and where it was created.
_PLACES = re.compile(
  r"(?s)^Graph execution error:\s*|Detected at node.*?(?=\n\S*\n\S)|"
  r"\s*\[\[\{\{node.*$|\n\nOriginal stack trace.*$|\nTraceback \(most.*$"
)
_MOST_CHARACTERS = 240


@contextlib.contextmanager
def _explain_errors(
  parts: _Parts,
  step_by_step: Callable[[], Any] | None,
) -> Iterator[None]:
  """Turns TensorFlow's errors in the block into errors that name the client.

  A graph of all clients does not show which client failed, so `step_by_step`
  repeats the computation.
  """
  try:
    yield
  except stepwise.ClientError as error:
    raise _client_error(error, parts) from error.error
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
          raise _client_error(of_client, parts) from error
    raise RuntimeError(_one_line_message(error)) from error


def _one_line_message(error: Exception) -> str:
  """Returns an error's message in one line, without the operation's name."""
  message = error.message if isinstance(error, tf.errors.OpError) else error
  text = _PLACES.sub("", str(message or error)).strip()
  lines = [line.strip() for line in text.splitlines() if line.strip()]
  short = " ".join(lines)[:_MOST_CHARACTERS]
  is_op_error = isinstance(error, tf.errors.OpError)
  return short if is_op_error and short else f"{type(error).__name__}: {short}"


def _client_error(error: stepwise.ClientError, parts: _Parts) -> Exception:
  if isinstance(
    error.error, (concurrent.futures.CancelledError, tf.errors.CancelledError)
  ):
    return error.error
  client = _name(error.client, parts)
  found = _OUT_OF_RANGE.search(str(error.error))
  if found is None:
    return RuntimeError(f"{client}: {_one_line_message(error.error)}")
  label, num_outputs = map(int, found.groups())
  return ValueError(
    f"y of {client} has the label {label}; the model's outputs are for labels "
    f"from 0 to {num_outputs - 1}. Number the classes from 0, and give the "
    "model an output for each."
  )


def _name(number: int, parts: _Parts) -> str:
  """Returns a client's name in errors: the id in its data, or its position."""
  for value, type_spec in parts:
    if values.is_at_clients(type_spec) and isinstance(
      type_spec.member, tff.SequenceType
    ):
      with contextlib.suppress(Exception):  # The data may be unreadable.
        data = value[number]
        if not isinstance(data, tf.data.Dataset):
          data = values.to_structs(data, type_spec.member)
        for client_id, _ in data.take(1):
          return f"client {int(client_id)}"
  return f"client number {number + 1} of the cohort"
