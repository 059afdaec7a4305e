"""Rounds in parts in one worker: one part after the other."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeAlias

import tensorflow_federated as tff

from tff_fair.runtime import threads
from tff_fair.runtime.parts import arguments, forms, rounds

# Begins to compute a computation with its argument; returns what waits for the
# result and returns it.
Begin: TypeAlias = Callable[[tff.Computation, Any], Callable[[], Any]]

# The worker gets so many parts before it has ended one.
_NUM_AHEAD = 1


class _LocalEngine:
  """Waits in the thread that calls, so that no await has to wait."""

  def __init__(self, begin: Begin) -> None:
    self._begin = begin

  async def put(self, value: Any, type_spec: tff.Type) -> Any:
    return arguments.of(value, type_spec)

  def call(self, comp: tff.Computation, *args: Any) -> Awaitable[Any]:
    return _Begun(self._begin(comp, arguments.of_call(comp, args)))

  async def fetch(self, result: Any) -> Any:
    return result.fetch() if isinstance(result, arguments.Argument) else result


class _Begun:
  """A call that has begun."""

  def __init__(self, wait: Callable[[], Any]) -> None:
    self._wait = wait

  def __await__(self) -> Generator[None, None, Any]:
    yield from ()
    return self._wait()


def compute(
  begin: Begin,
  phases: forms.Phases,
  arg: tff.structure.Struct,
  clients_per_part: int,
) -> Any:
  """Computes a computation in one worker, part by part.

  The sums of a group of parts are merged before the next group is computed,
  except for the part that has begun already.

  Args:
    begin: Begins a call there.
    phases: Those of the computation.
    arg: Its arguments, one for each element of its parameter.
    clients_per_part: The size of the parts.

  Returns:
    The result.
  """
  # Without an event loop, this works in a notebook, which has one already.
  return threads.finished(
    rounds.compute(
      _LocalEngine(begin),
      phases,
      arg,
      clients_per_part,
      for_each=rounds.in_turn,
      num_ahead=_NUM_AHEAD,
    )
  )
