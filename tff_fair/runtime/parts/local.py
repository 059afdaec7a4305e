"""Rounds in parts in one worker: one part after the other."""

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import tensorflow_federated as tff

from tff_fair.runtime.parts import arguments, forms, rounds

# Computes a computation with its argument, and waits for the result.
Invoke = Callable[[tff.Computation, Any], Any]


class _LocalEngine:
  """Computes each call at once, so that nothing has to wait for anything."""

  def __init__(self, invoke: Invoke) -> None:
    self._invoke = invoke

  async def put(self, value: Any, type_spec: tff.Type) -> Any:
    return arguments.of(value, type_spec)

  async def call(self, comp: tff.Computation, *args: Any) -> Any:
    return self._invoke(comp, arguments.of_call(comp, args))

  async def fetch(self, result: Any) -> Any:
    return result


def compute(
  invoke: Invoke,
  phases: Sequence[forms.Phase],
  arg: tff.structure.Struct,
  clients_per_part: int,
) -> Any:
  """Computes a computation in one worker, part by part.

  The sums of a group of parts are merged before the next group is computed.

  Args:
    invoke: Computes a call there.
    phases: Those of the computation.
    arg: Its arguments, one for each element of its parameter.
    clients_per_part: The size of the parts.

  Returns:
    The result.
  """
  engine = _LocalEngine(invoke)
  return finished(
    rounds.compute(
      engine, phases, arg, clients_per_part, for_each=rounds.in_turn
    )
  )


def finished(coroutine: Coroutine[Any, Any, Any]) -> Any:
  """Returns the result of a coroutine that never has to wait.

  It needs no event loop: it runs in the thread that called, as a single call
  does.
  """
  try:
    coroutine.send(None)
  except StopIteration as result:
    return result.value
  raise RuntimeError("A call of the local engine has to wait.")
