"""Checks whether an aggregation factory returns a sum.

A rule chooses coefficients for a sum. With a factory that returns the mean over
m clients, the server's step would be m times too short, and no error would
occur.
"""

from collections.abc import Iterator
from types import FunctionType

import tensorflow_federated as tff

from tff_fair import declared

_FACTORY_TYPES = (
  tff.aggregators.UnweightedAggregationFactory,
  tff.aggregators.WeightedAggregationFactory,
)
_MEANS = (tff.aggregators.MeanFactory, tff.aggregators.UnweightedMeanFactory)


def check_sums(factory: object) -> None:
  """Checks that a factory is unweighted and does not divide its sum.

  The check works for TFF's factories, nested in any way, but cannot see what a
  user's own factory does.

  Args:
    factory: The factory.

  Raises:
    TypeError: If it is not an aggregation factory of TFF.
    FieldError: If it is weighted, divides the sum, returns only some of the
      values or sums only integers; a `ValueError`.
  """
  if isinstance(factory, tff.aggregators.WeightedAggregationFactory):
    raise _error(factory, "is weighted, and the coefficients are weights")
  if not isinstance(factory, tff.aggregators.UnweightedAggregationFactory):
    raise TypeError(
      "Expected `sum_factory` to be a "
      "tff.aggregators.UnweightedAggregationFactory, found "
      f"{type(factory).__name__}: {factory!r}."
    )
  for part in _parts(factory, set()):
    if isinstance(part, tff.aggregators.UnweightedReservoirSamplingFactory):
      raise _error(part, "returns some of the values")
    if isinstance(part, tff.aggregators.SecureModularSumFactory):
      raise _error(part, "sums only integers")
    if isinstance(part, _MEANS):
      raise _error(part, "divides by the number of clients or their weights")
    divisor = _divisor(part)
    if divisor != 1:
      raise _error(part, f"divides the sum by {divisor:g}")


def _error(part: object, why: str) -> declared.FieldError:
  return declared.FieldError(
    "sum_factory",
    f"Expected a sum_factory that returns a sum; {type(part).__name__} {why}. "
    "Pass a sum, as tff.aggregators.SumFactory() or SecureSumFactory(bound); "
    "for differential privacy the option dp (tff_fair.privacy.dp).",
  )


def _divisor(part: object) -> float:
  """Returns the divisor of a TensorFlow Privacy query; 1 for other parts."""
  if not _is_query(part):
    return 1.0
  state = part.initial_global_state()  # type: ignore[attr-defined]
  return float(getattr(state, "denominator", 1.0))


def _is_query(part: object) -> bool:
  return callable(getattr(part, "initial_global_state", None))


def _parts(value: object, seen: set[int]) -> Iterator[object]:
  """Yields a factory, and all factories and queries that it contains.

  `seen` holds the ids of parts already visited. Closures are searched, too,
  since `tff.aggregators.add_measurements` keeps the inner factory in a closure.
  """
  if id(value) in seen:
    return
  seen.add(id(value))
  if isinstance(value, _FACTORY_TYPES) or _is_query(value):
    yield value
    held = [*getattr(value, "__dict__", {}).values()]
    for member in vars(type(value)).values():
      if isinstance(member, FunctionType):
        held += _closure(member)
  elif isinstance(value, FunctionType):
    held = _closure(value)
  elif isinstance(value, list | tuple):
    held = [*value]
  else:
    return
  for part in held:
    yield from _parts(part, seen)


def _closure(function: FunctionType) -> list[object]:
  """Returns the values in a function's closure."""
  held = []
  for cell in function.__closure__ or ():
    try:
      held.append(cell.cell_contents)
    except ValueError:  # An empty cell.
      continue
  return held
