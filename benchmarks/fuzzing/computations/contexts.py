"""Two contexts side by side: TFF's own executors, and what replaces them."""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple
from unittest import mock

import numpy as np
import tensorflow_federated as tff

import tff_fair
from benchmarks.fuzzing import short
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
    is_lost: Whether it hangs.
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
    """Returns a value, an error, and whether the call hangs."""
    try:
      future = self._thread.submit(self._call, call, clients_per_part)
      return future.result(_MOST_SECONDS), None, False
    except concurrent.futures.TimeoutError:
      self._restart()
      return None, HangError(f"no answer in {_MOST_SECONDS:.0f} s"), True
    # A call may raise anything.
    except Exception as error:
      return None, error, False

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
    effects: BinaryIO | None = None,
  ) -> tuple[Outcome, Outcome]:
    """Returns how a call ends in the exact context, and in the other one."""
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
  effects: BinaryIO | None,
) -> Outcome:
  before = _size(effects)
  value, error, is_lost = side.call(call, clients_per_part)
  return Outcome(value, error, _size(effects) - before, is_lost)


def _size(file: BinaryIO | None) -> int:
  return 0 if file is None else os.fstat(file.fileno()).st_size


# How the results of two contexts differ.

# Of sums in another order, by the size of a number of a dtype.
_ROUNDING = {"e": 2e-2, "f": 2e-5, "d": 1e-12, "F": 2e-5, "D": 1e-12}
_BFLOAT16_ROUNDING = 1e-1
_CLOCK = "round_timestamp"  # The time of the call, in results of TFF's.


def differences(exact: Any, other: Any, *, rounds: bool) -> Iterator[str]:
  """Yields how two results differ."""
  if type(exact) is not type(other):
    yield f"type {type(other).__name__}, not {type(exact).__name__}"
  elif isinstance(exact, (list, tuple, Mapping, tff.structure.Struct)) or (
    hasattr(exact, "__attrs_attrs__")
  ):
    yield from _of_structures(exact, other, rounds)
  elif isinstance(exact, (np.ndarray, np.generic, float)):
    yield from _of_arrays(np.asarray(exact), np.asarray(other), rounds)
  elif hasattr(exact, "element_spec"):
    yield from differences([*exact], [*other], rounds=rounds)
  elif hasattr(exact, "numpy"):
    yield from differences(exact.numpy(), other.numpy(), rounds=rounds)
  elif exact != other:
    yield f"{short(other)}, not {short(exact)}"


def _of_structures(exact: Any, other: Any, rounds: bool) -> Iterator[str]:
  names, members = _members(exact)
  other_names, other_members = _members(other)
  if names != other_names:
    yield f"names {other_names}, not {names}"
    return
  for name, member, other_member in zip(
    names, members, other_members, strict=True
  ):
    for difference in differences(member, other_member, rounds=rounds):
      yield f"[{name}] {difference}"


def _members(value: Any) -> tuple[list[Any], list[Any]]:
  if isinstance(value, Mapping):
    return [*value], [*value.values()]
  if isinstance(value, tff.structure.Struct):
    elements = tff.structure.to_elements(value)
    return [name for name, _ in elements], [member for _, member in elements]
  if hasattr(value, "__attrs_attrs__"):
    names = [field.name for field in value.__attrs_attrs__]
    names = [name for name in names if name != _CLOCK]
    return names, [getattr(value, name) for name in names]
  return [*range(len(value))], [*value]


def _of_arrays(
  exact: np.ndarray, other: np.ndarray, rounds: bool
) -> Iterator[str]:
  if exact.dtype != other.dtype or exact.shape != other.shape:
    yield (
      f"{other.dtype}{other.shape}, not {exact.dtype}{exact.shape}: "
      f"{short(other)}, not {short(exact)}"
    )
  elif not _are_equal(exact, other) and not (
    rounds and _are_close(exact, other)
  ):
    yield f"{short(other)}, not {short(exact)}"


def _are_equal(exact: np.ndarray, other: np.ndarray) -> bool:
  """Returns whether arrays are equal bit for bit, but for kinds of NaN."""
  if exact.dtype.kind not in "fcV":
    return bool(np.all(exact == other))
  if exact.dtype.kind == "V" and exact.dtype.names is None:  # bfloat16
    exact, other = exact.astype(np.float32), other.astype(np.float32)
  if exact.dtype.kind == "c":
    return _are_equal(exact.real, other.real) and _are_equal(
      exact.imag, other.imag
    )
  return bool(
    np.array_equal(exact, other, equal_nan=True)
    and np.all((np.signbit(exact) == np.signbit(other)) | np.isnan(exact))
  )


def _are_close(exact: np.ndarray, other: np.ndarray) -> bool:
  rounding = _ROUNDING.get(exact.dtype.char)
  if exact.dtype.kind == "V" and exact.dtype.names is None:
    rounding = _BFLOAT16_ROUNDING
    exact, other = exact.astype(np.float32), other.astype(np.float32)
  if rounding is None:
    return False
  with np.errstate(all="ignore"):
    finite = np.abs(exact[np.isfinite(exact)])
    scale = max(1.0, float(finite.max(initial=0.0)))
    return bool(
      np.allclose(
        other, exact, rtol=rounding, atol=rounding * scale, equal_nan=True
      )
    )
