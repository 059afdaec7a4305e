"""Calls in one worker, of which several may be under way.

A computation over clients becomes one graph, if it can. While the worker
computes a call of a part, the program sends the arguments of the next one,
unless both are large. Sums stay as the messages in which they come: the program
needs their numbers only when all parts are merged.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from typing import Any

import numpy as np
import tensorflow_federated as tff

from tff_fair.runtime import (
  admission,
  connections,
  native,
  private_tff,
  sending,
  threads,
)
from tff_fair.runtime.one_graph import whole_graph
from tff_fair.runtime.parts import arguments

# A call that takes more than this computes alone, because the worker keeps the
# updates of a part until it has sent what they sum to. Others fill the cores
# that the end of the call before leaves idle.
_MOST_BYTES_BESIDE_OTHERS = 32 * 2**20

_NO_LIMIT = 1024


class Calls:
  """Makes calls in one worker."""

  def __init__(
    self,
    executors: connections.WorkerExecutors,
    clients_at_a_time: int,
  ) -> None:
    """Takes what it needs.

    Args:
      executors: Those of the worker; no other thread may use them.
      clients_at_a_time: How many clients work at the same time; without limit
        if it is not positive.
    """
    self._executors = executors
    self._clients_at_a_time = (
      clients_at_a_time if clients_at_a_time > 0 else _NO_LIMIT
    )
    self._context = connections.execution_context(executors, self._compile)
    self._alone: contextlib.AbstractAsyncContextManager[Any] = asyncio.Lock()

  async def invoke(self, comp: tff.Computation, arg: Any) -> Any:
    """Returns `comp(arg)`, as TFF's contexts do.

    Args:
      comp: Any computation.
      arg: Its argument, as TFF hands it to a context.
    """
    graph = self._as_one_graph(comp, arg)
    if graph is None:
      return await self._context.invoke(comp, arg)
    return (await self._call(*graph, comp.type_signature.result)).fetch()

  async def call(self, comp: tff.Computation, arg: Any) -> arguments.Argument:
    """Computes `comp(arg)`.

    Args:
      comp: One of a `cohort_cuts.Phase`.
      arg: As `arguments.of_call` returns it.

    Returns:
      The result, for further calls and for `fetch`.
    """
    parameter = comp.type_signature.parameter
    given = arguments.of(arg, parameter)
    num_clients = given.cardinality.get(tff.CLIENTS, 1)
    is_large = num_clients * _num_bytes(parameter) > _MOST_BYTES_BESIDE_OTHERS
    alone = is_large or not self._runs_beside_others(comp)
    async with self._alone if alone else contextlib.nullcontext():
      called, sent = self._as_one_graph(comp, arg) or (comp, given)
      return await self._call(called, sent, comp.type_signature.result)

  def _as_one_graph(
    self, comp: tff.Computation, arg: Any
  ) -> whole_graph.OneGraph | None:
    """Returns a call as one of a graph; `None` if it cannot be one."""
    if not self._executors.writes_values:
      return None
    return whole_graph.of(comp, arg, self._compile, self._clients_at_a_time)

  async def _call(
    self, comp: tff.Computation, arg: Any, result_type: tff.Type
  ) -> arguments.Argument:
    argument = arguments.of(arg, comp.type_signature.parameter)
    comp = self._compile(comp)
    executor = self._executors.create_executor(argument.cardinality)
    try:
      function = await executor.create_value(comp, comp.type_signature)
      remote = await argument.ingest(executor)
      # The worker answers when it has computed.
      result = await asyncio.wrap_future(
        threads.in_thread(
          lambda: threads.finished(executor.create_call(function, remote))
        )
      )
      if isinstance(executor, sending.SendingExecutor):
        kept = await executor.keep(result)
      else:
        kept = await result.compute()
      return arguments.Argument(kept, result_type)
    except tff.framework.RetryableError:
      self._executors.check_running()
      raise

  def _runs_beside_others(self, comp: tff.Computation) -> bool:
    """Returns whether all kernels of a computation allow calls side by side."""
    return private_tff.kept_with(
      comp,
      "runs beside others",
      lambda: admission.takes_clients_side_by_side(
        tff.framework.serialize_computation(self._compile(comp))
      ),
    )

  def _compile(self, comp: tff.Computation) -> tff.Computation:
    return private_tff.kept_with(
      comp, "compiled", lambda: native.compile_now(comp)
    )


def _num_bytes(type_spec: tff.Type) -> float:
  """Returns the size of tensors at the server; infinite if it is unknown."""
  if isinstance(type_spec, tff.StructType):
    return sum(map(_num_bytes, type_spec))
  if isinstance(type_spec, tff.FederatedType):
    at_server = type_spec.placement is tff.SERVER
    return _num_bytes(type_spec.member) if at_server else 0
  if not isinstance(type_spec, tff.TensorType):
    return math.inf
  shape, dtype = type_spec.shape, np.dtype(type_spec.dtype)
  if shape is None or None in shape:
    return math.inf
  if not issubclass(dtype.type, (np.number, np.bool_)):
    return 0  # Texts are short.
  return math.prod(shape) * dtype.itemsize
