"""Keeps the context that a program has chosen until it chooses another one.

TFF keeps one default context per thread. This module keeps the context that
`use_local` or `use_dask` set last, in any thread.
"""

import atexit
import contextlib
import gc
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow_federated as tff

from tff_fair.runtime import local_context, supervision
from tff_fair.runtime.parts import part_by_part

_current = contextlib.ExitStack()  # Closes the chosen context.


class _Choice(NamedTuple):
  """The context that a program has chosen.

  Attributes:
    context: The context; `None` if the program has not chosen one.
    local: The `LocalContext` that computes in this program; `None` for other
      contexts.
    takes_native_form: Whether the context accepts natively compiled
      computations.
    run_on_workers: Calls a function in each worker; `None` if there are no
      workers.
  """

  context: Any = None
  local: local_context.LocalContext | None = None
  takes_native_form: bool = True
  run_on_workers: Callable[..., Mapping[str, Any]] | None = None


_choice = _Choice()
# The parent's objects that a forked child keeps alive.
_parent_objects: object = None


def replace(
  resources: contextlib.ExitStack,
  local: local_context.LocalContext | None = None,
  *,
  takes_native_form: bool = False,
  run_on_workers: Callable[..., Mapping[str, Any]] | None = None,
) -> None:
  """Makes TFF's current context the chosen one; closes the former choice.

  Closing `resources` closes the new context; the other arguments are explained
  in `_Choice`.
  """
  global _choice  # noqa: PLW0603
  context = tff.framework.get_context_stack().current
  _choice = _Choice(context, local, takes_native_form, run_on_workers)
  former = _current.pop_all()
  _current.enter_context(resources.pop_all())
  former.close()


def use() -> bool:
  """Sets the chosen context in this thread; returns whether there is one."""
  if is_chosen := _is_chosen():
    tff.framework.set_default_context(_choice.context)
  return is_chosen


def _is_chosen() -> bool:
  # Excludes federated contexts, which return references instead of values.
  return _choice.context is not None and not isinstance(
    _choice.context, tff.program.FederatedContext
  )


def compiles_natively() -> bool:
  """Returns whether the chosen context takes natively compiled computations.

  Contexts with Dask workers, or with simulated secure sums, need another form.
  """
  return _choice.takes_native_form or not _is_chosen()


def workers_can_build_data() -> bool:
  """Returns whether workers can build clients' data from a `DataAtWorker`."""
  return _choice.run_on_workers is not None


def run_on_workers(function: Callable[..., Any], *args: Any) -> dict[str, Any]:
  """Calls a function in each worker and returns the results.

  Args:
    function: A function of a module that workers can import.
    *args: The function's arguments.

  Returns:
    The results by worker address.

  Raises:
    RuntimeError: If there are no workers; see `workers_can_build_data`.
  """
  if _choice.run_on_workers is None:
    raise RuntimeError("Only `use_dask` has workers.")
  return dict(_choice.run_on_workers(function, *args))


class ClientCount(NamedTuple):
  """How many clients this program has started, and how many run at a time.

  Attributes:
    num_started: The number of clients started so far. Each pass over a client's
      dataset adds one.
    max_concurrent: The maximum number of clients computed at the same time.
  """

  num_started: int
  max_concurrent: int


def count_clients() -> ClientCount | None:
  """Returns a `ClientCount`; `None` unless this program computes the clients.

  Other threads may call this in the middle of a round.
  """
  if _choice.local is None:
    return None
  return ClientCount(
    supervision.num_started_clients(), _choice.local.clients_at_a_time
  )


@atexit.register
def stop() -> None:
  """Closes the context, and stops its workers if this program started them.

  Python also calls this function at the end of the program.
  """
  global _choice  # noqa: PLW0603
  _choice = _Choice()
  _current.close()
  # Drops the previous context, which may be TFF's own: TFF can end its worker
  # only while the interpreter is intact.
  tff.framework.set_default_context(
    _UnusableContext(part_by_part.CLOSED_MESSAGE)
  )


class _UnusableContext(tff.framework.SyncContext):
  """A context that refuses each computation, with the same message."""

  def __init__(self, why: str) -> None:
    self._why = why

  def invoke(self, comp: Any, arg: Any) -> Any:
    del comp, arg
    raise RuntimeError(self._why)


def _forget() -> None:
  """Gives up the parent's context in a forked child.

  The child would end if it closed its parent's connection to TFF's worker
  (`exact=True`) or to Dask. So it keeps every object that holds a connection,
  and never collects its parent's garbage.
  """
  global _choice, _parent_objects  # noqa: PLW0603
  if _choice.context is None:
    return
  current = tff.framework.get_context_stack().current
  _parent_objects = (_choice, _current.pop_all(), current)
  gc.freeze()
  if current is _choice.context:
    # Calls of the parent's context would never return.
    tff.framework.set_default_context(
      _UnusableContext(local_context.FORKED_MESSAGE)
    )
  _choice = _Choice()
  atexit.unregister(stop)


os.register_at_fork(after_in_child=_forget)
