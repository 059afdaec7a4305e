"""Two contexts side by side: TFF's own executors, and what replaces them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import pathlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from unittest import mock

import tensorflow_federated as tff

import tff_fair
from tff_fair.runtime import chosen_context
from tff_fair.runtime.one_graph import whole_graph
from tff_fair.runtime.parts import cohort_cuts

# A call that takes longer hangs.
_MOST_SECONDS = 60.0


class Options(NamedTuple):
  """What both contexts are told.

  Attributes:
    simulate_secure_sums: See `use_local`.
    default_num_clients: Likewise.
  """

  simulate_secure_sums: bool = False
  default_num_clients: int = 0


PLAIN = Options()


class HangError(Exception):
  """A call did not end."""


class Outcome(NamedTuple):
  """How a call ended.

  Attributes:
    value: What it returned.
    error: What it raised; `None` if it returned.
    num_effects: How many bytes it wrote to the file of its effects.
    is_lost: Whether the worker ended, or hangs.
  """

  value: Any = None
  error: BaseException | None = None
  num_effects: int = 0
  is_lost: bool = False


class _Side:
  """A context that stays open beside another one."""

  def __init__(self, options: Options, *, exact: bool) -> None:
    self._open = functools.partial(
      tff_fair.runtime.use_local, exact=exact, **options._asdict()
    )
    self._start()

  def _start(self) -> None:
    self._open()
    self._context = tff.framework.get_context_stack().current
    # The next one to open closes it no more.
    self._opened = chosen_context.keep()
    self._thread = concurrent.futures.ThreadPoolExecutor(1)

  def call(
    self, call: Callable[[], Any], clients_per_part: int | None
  ) -> tuple[Any, BaseException | None, bool]:
    """Returns a value, an error, and whether the worker was lost."""
    try:
      future = self._thread.submit(self._call, call, clients_per_part)
      return future.result(_MOST_SECONDS), None, False
    except concurrent.futures.TimeoutError:
      self._restart()
      return None, HangError(f"no answer in {_MOST_SECONDS:.0f} s"), True
    # A call may raise anything.
    except Exception as error:
      is_lost = not self._context.worker.is_running
      if is_lost:
        self._restart()
      return None, error, is_lost

  def _call(self, call: Callable[[], Any], size: int | None) -> Any:
    stack = tff.framework.get_context_stack()
    with contextlib.ExitStack() as opened:
      opened.enter_context(warnings.catch_warnings())
      warnings.simplefilter("ignore")
      opened.enter_context(stack.install(self._context))
      if size is not None:
        opened.enter_context(tff_fair.runtime.in_parts_of(size))
      return call()

  def _restart(self) -> None:
    self.close()
    self._start()

  def close(self) -> None:
    """Ends the worker."""
    self._thread.shutdown(wait=False, cancel_futures=True)
    self._opened.close()


class Ways:
  """Which ways the calls of a context took."""

  def __init__(self) -> None:
    """Has seen no call."""
    self.one_graph = False
    self.cut = False

  @contextlib.contextmanager
  def watched(self) -> Iterator[None]:
    """Sees the calls of now."""
    cut, of = cohort_cuts.cut, whole_graph.of
    self.one_graph = self.cut = False

    def seen_cut(*args: Any, **options: Any) -> Any:
      found = cut(*args, **options)
      self.cut |= found is not None
      return found

    def seen_of(*args: Any, **options: Any) -> Any:
      found = of(*args, **options)
      self.one_graph |= found is not None
      return found

    with (
      mock.patch.object(cohort_cuts, "cut", seen_cut),
      mock.patch.object(whole_graph, "of", seen_of),
    ):
      yield


class Both:
  """Both contexts, for all the options that calls need."""

  def __init__(self) -> None:
    """Starts no worker yet."""
    self._exact: dict[Options, _Side] = {}
    self._fast: dict[Options, _Side] = {}
    self.ways = Ways()

  def call(
    self,
    call: Callable[[], Any],
    options: Options,
    *,
    clients_per_part: int | None = None,
    effects: pathlib.Path | None = None,
  ) -> tuple[Outcome, Outcome]:
    """Returns how a call ends in the exact context, and in the other one.

    Args:
      call: Calls a computation.
      options: Those of the contexts.
      clients_per_part: The size of parts in the other one, if it is not the
        default.
      effects: The file to which the call appends.
    """
    if options not in self._exact:
      self._exact[options] = _Side(options, exact=True)
      self._fast[options] = _Side(options, exact=False)
    exact = _outcome(self._exact[options], call, 0, effects)
    with self.ways.watched():
      fast = _outcome(self._fast[options], call, clients_per_part, effects)
    return exact, fast

  def close(self) -> None:
    """Ends all workers, and opens the default context again."""
    sides: Sequence[_Side] = [*self._exact.values(), *self._fast.values()]
    for side in sides:
      side.close()
    tff_fair.runtime.use_local()


def _outcome(
  side: _Side,
  call: Callable[[], Any],
  clients_per_part: int | None,
  effects: pathlib.Path | None,
) -> Outcome:
  before = _size(effects)
  value, error, is_lost = side.call(call, clients_per_part)
  return Outcome(value, error, _size(effects) - before, is_lost)


def _size(path: pathlib.Path | None) -> int:
  return path.stat().st_size if path is not None and path.exists() else 0
