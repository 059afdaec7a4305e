"""How the results of two contexts differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow_federated as tff

from benchmarks.fuzzing import case

# Of sums in another order, by the size of a number of a dtype.
_ROUNDING = {"e": 2e-2, "f": 2e-5, "d": 1e-12, "F": 2e-5, "D": 1e-12}
_BFLOAT16_ROUNDING = 1e-1
_CLOCK = "round_timestamp"  # The time of the call, in results of TFF's.


def differences(exact: Any, other: Any, *, rounds: bool) -> Iterator[str]:
  """Yields how two results differ.

  Args:
    exact: The result that is right.
    other: The result to compare with it.
    rounds: Whether sums may be in another order.
  """
  if type(exact) is not type(other):
    yield f"type {type(other).__name__}, not {type(exact).__name__}"
  elif isinstance(exact, (list, tuple, Mapping, tff.structure.Struct)) or (
    hasattr(exact, "__attrs_attrs__")
  ):
    yield from _of_structures(exact, other, rounds)
  elif isinstance(exact, (np.ndarray, np.generic)):
    yield from _of_arrays(np.asarray(exact), np.asarray(other), rounds)
  elif hasattr(exact, "element_spec"):
    yield from differences([*exact], [*other], rounds=rounds)
  elif hasattr(exact, "numpy"):
    yield from differences(exact.numpy(), other.numpy(), rounds=rounds)
  elif isinstance(exact, float):
    yield from _of_arrays(np.asarray(exact), np.asarray(other), rounds)
  elif exact != other:
    yield f"{case.short(other)}, not {case.short(exact)}"


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
      f"{case.short(other)}, not {case.short(exact)}"
    )
  elif not _are_equal(exact, other) and not (
    rounds and _are_close(exact, other)
  ):
    yield f"{case.short(other)}, not {case.short(exact)}"


def _are_equal(exact: np.ndarray, other: np.ndarray) -> bool:
  """Returns whether arrays are equal bit for bit, but for kinds of NaN."""
  if exact.dtype.kind in "OSU" or exact.dtype.kind not in "fcV":
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
