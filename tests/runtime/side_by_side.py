"""Runs computations under TFF's own executors and under ours."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import tensorflow_federated as tff

import tff_fair
from tests.fuzz import short
from tests.runtime import ways
from tff_fair.runtime import chosen_context
from tff_fair.runtime.parts import cohort_cuts

# A call that takes longer counts as hanging.
_MOST_SECONDS = 60.0
# Numbers of clients, and of clients per part; most are cheap.
_SIZES: Sequence[tuple[int, int | None]] = (
  *((0, None), (1, None), (2, None), (3, None), (5, None)),
  *((2, 1), (3, 1), (3, 2), (4, 3), (5, 2), (7, 3), (12, 1)),
  *((31, None), (32, None), (33, None), (70, None)),
)
_WEIGHTS = (3, 5, 5, 4, 4, *(5, 5, 5, 5, 5, 5, 2), 1, 1, 1.5, 1)


class Options(NamedTuple):
  """The options of both contexts; see `use_local`."""

  simulate_secure_sums: bool = False
  default_num_clients: int = 0


PLAIN = Options()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Subject:
  """A computation, with its arguments.

  Attributes:
    family: The family of the computation.
    comp: The computation.
    arguments: Draws the arguments of a call for a number of clients.
  """

  family: str
  comp: tff.Computation
  arguments: Callable[[random.Random, int], Sequence[Any]]


class Outcome(NamedTuple):
  """The result or the error of a call."""

  value: Any
  error: BaseException | None


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
    # Otherwise the next context to open would close this one.
    self._opened = chosen_context._current.pop_all()
    self._thread = concurrent.futures.ThreadPoolExecutor(1)

  def outcome(self, call: Callable[[], Any], size: int | None) -> Outcome:
    value, error = None, None
    try:
      future = self._thread.submit(self._call, call, size)
      value = future.result(_MOST_SECONDS)
    # A call may raise anything.
    except Exception as raised:
      error = raised
      if isinstance(raised, concurrent.futures.TimeoutError):
        self.close()
        self._start()
    return Outcome(value, error)

  def _call(self, call: Callable[[], Any], size: int | None) -> Any:
    stack = tff.framework.get_context_stack()
    with contextlib.ExitStack() as opened:
      opened.enter_context(warnings.catch_warnings())
      warnings.simplefilter("ignore")
      opened.enter_context(stack.install(self._context))
      if size is not None:
        opened.enter_context(tff_fair.runtime.in_parts_of(size))
      return call()

  def close(self) -> None:
    self._thread.shutdown(wait=False, cancel_futures=True)
    self._opened.close()


class Both:
  """Both contexts, for all the options that calls need."""

  def __init__(self) -> None:
    """Opens no contexts yet."""
    self._sides: dict[tuple[Options, bool], _Side] = {}
    self.one_graph = self.cut = False

  def call(
    self,
    call: Callable[[], Any],
    options: Options = PLAIN,
    *,
    clients_per_part: int | None = None,
  ) -> tuple[Outcome, Outcome]:
    """Returns how a call ends in the exact context, and how it ends in ours."""
    for is_exact in (True, False):
      if (options, is_exact) not in self._sides:
        self._sides[options, is_exact] = _Side(options, exact=is_exact)
    exact = self._sides[options, True].outcome(call, 0)
    with ways.counted() as graphs, ways.counted(cohort_cuts, "cut") as cuts:
      other = self._sides[options, False].outcome(call, clients_per_part)
    self.one_graph, self.cut = any(graphs), any(cuts)
    return exact, other

  def close(self) -> None:
    """Closes all contexts, and opens the default one again."""
    for side in self._sides.values():
      side.close()
    tff_fair.runtime.use_local()


def check(
  subject: Subject, rng: random.Random, both: Both, num_calls: int
) -> None:
  """Checks that calls of a computation end as under TFF's own executors."""
  for _ in range(num_calls):
    num_clients, size = rng.choices(_SIZES, _WEIGHTS)[0]
    args = subject.arguments(random.Random(rng.getrandbits(48)), num_clients)
    outcomes = both.call(
      functools.partial(subject.comp, *args), clients_per_part=size
    )
    cut = ", cut" if both.cut else ""
    signature = str(subject.comp.type_signature)[:200]
    found = next(_differences(*outcomes, rounds=both.cut), None)
    assert found is None, (
      f"{subject.family}{cut}, {num_clients} clients in parts of {size}: "
      f"{found} {signature}({short(args)})"
    )
    exact, other = outcomes
    if exact.error is None:
      one = "one graph" if both.one_graph else "by executors"
      end = "cut" if both.cut else one
    else:
      same = type(exact.error) is type(other.error)
      end = "both fail" if same else "both fail, by other errors"
    if hypothesis.currently_in_test_context():
      hypothesis.event(f"{subject.family}: {end}")


def _differences(
  exact: Outcome, other: Outcome, *, rounds: bool
) -> Iterator[str]:
  if isinstance(exact.error, concurrent.futures.TimeoutError):
    return  # TFF's own executors hang, too.
  if (exact.error is None) is not (other.error is None):
    way = "fails" if exact.error is None else "does not fail"
    yield f"{way}: {short(exact.error or other.error)}"
  elif isinstance(other.error, concurrent.futures.TimeoutError):
    yield "hangs"
  elif exact.error is None:
    yield from differences(exact.value, other.value, rounds=rounds)


# The comparison of two contexts' results.

# Relative tolerances by dtype, for sums in another order.
_ROUNDING = {"e": 2e-2, "f": 2e-5, "d": 1e-12, "F": 2e-5, "D": 1e-12}
_BFLOAT16_ROUNDING = 1e-1
_CLOCK = "round_timestamp"  # A field with the time of a call.


def differences(exact: Any, other: Any, *, rounds: bool) -> Iterator[str]:
  """Yields how two results differ."""
  if type(exact) is not type(other):
    yield f"type {type(other).__name__}, not {type(exact).__name__}"
  elif isinstance(exact, (list, tuple, Mapping, tff.structure.Struct)) or (
    hasattr(exact, "__attrs_attrs__")
  ):
    members, others = _members(exact), _members(other)
    names, other_names = ([name for name, _ in x] for x in (members, others))
    if names != other_names:
      yield f"names {other_names}, not {names}"
      return
    for (name, one), (_, another) in zip(members, others, strict=True):
      for difference in differences(one, another, rounds=rounds):
        yield f"[{name}] {difference}"
  elif isinstance(exact, (np.ndarray, np.generic, float)):
    one, another = np.asarray(exact), np.asarray(other)
    if one.dtype != another.dtype or one.shape != another.shape:
      yield f"{another.dtype}{another.shape}, not {one.dtype}{one.shape}"
    elif not (
      _are_equal(one, another) or (rounds and _are_close(one, another))
    ):
      yield f"{short(another)}, not {short(one)}"
  elif hasattr(exact, "element_spec"):
    yield from differences([*exact], [*other], rounds=rounds)
  elif hasattr(exact, "numpy"):
    yield from differences(exact.numpy(), other.numpy(), rounds=rounds)
  elif exact != other:
    yield f"{short(other)}, not {short(exact)}"


def _members(value: Any) -> list[tuple[Any, Any]]:
  if isinstance(value, Mapping):
    return [*value.items()]
  if isinstance(value, tff.structure.Struct):
    return [*tff.structure.to_elements(value)]
  if hasattr(value, "__attrs_attrs__"):
    names = [field.name for field in value.__attrs_attrs__]
    return [(name, getattr(value, name)) for name in names if name != _CLOCK]
  return [*enumerate(value)]


def _are_equal(exact: np.ndarray, other: np.ndarray) -> bool:
  """Returns whether arrays are equal bit for bit, except for kinds of NaN."""
  if exact.dtype.kind not in "fcV":
    return bool(np.all(exact == other))
  exact, other = _without_bfloat16(exact), _without_bfloat16(other)
  if exact.dtype.kind == "c":
    return _are_equal(exact.real, other.real) and _are_equal(
      exact.imag, other.imag
    )
  return bool(
    np.array_equal(exact, other, equal_nan=True)
    and np.all((np.signbit(exact) == np.signbit(other)) | np.isnan(exact))
  )


def _without_bfloat16(array: np.ndarray) -> np.ndarray:
  return array.astype(np.float32) if array.dtype.kind == "V" else array


def _are_close(exact: np.ndarray, other: np.ndarray) -> bool:
  rounding = _ROUNDING.get(exact.dtype.char)
  if exact.dtype.kind == "V":
    rounding = _BFLOAT16_ROUNDING
    exact, other = _without_bfloat16(exact), _without_bfloat16(other)
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
