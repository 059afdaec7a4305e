"""Checks of the values that callers pass, with errors that say what to mend."""

import math
import numbers


def check_number(
  name: str,
  value: float,
  *,
  minimum: float = -math.inf,
  maximum: float = math.inf,
  exclude_minimum: bool = False,
  exclude_maximum: bool = False,
) -> None:
  """Checks that a value is a finite number in an interval.

  Args:
    name: What the caller calls the value.
    value: The value.
    minimum: The least value allowed.
    maximum: The greatest value allowed.
    exclude_minimum: Whether `minimum` itself is not allowed.
    exclude_maximum: Whether `maximum` itself is not allowed.

  Raises:
    TypeError: If `value` is not a real number.
    ValueError: If it is not finite or out of the interval.
  """
  if not isinstance(value, numbers.Real) or isinstance(value, bool):
    raise TypeError(
      f"Expected {name} to be a number, found {type(value).__name__}: "
      f"{value!r}."
    )
  try:
    finite = math.isfinite(value)
  except OverflowError:  # An integer beyond the range of floats.
    finite = False
  too_low = value <= minimum if exclude_minimum else value < minimum
  too_high = value >= maximum if exclude_maximum else value > maximum
  if not finite or too_low or too_high:
    left = "(" if exclude_minimum or math.isinf(minimum) else "["
    right = ")" if exclude_maximum or math.isinf(maximum) else "]"
    raise ValueError(
      f"Expected {name} in {left}{minimum:g}, {maximum:g}{right}, found "
      f"{value!r}."
    )


def check_integer(name: str, value: int, *, minimum: int) -> None:
  """Checks that a value is an integer and not below a minimum.

  Raises:
    TypeError: If `value` is not an integer.
    ValueError: If it is below `minimum`.
  """
  if not isinstance(value, numbers.Integral) or isinstance(value, bool):
    raise TypeError(
      f"Expected {name} to be an integer, found {type(value).__name__}: "
      f"{value!r}."
    )
  if value < minimum:
    raise ValueError(f"Expected {name} to be {minimum} or more, found {value}.")


def check_boolean(name: str, value: bool) -> None:
  """Checks that a value is a boolean; a `TypeError` says that it is not."""
  if not isinstance(value, bool):
    raise TypeError(
      f"Expected {name} to be True or False, found {type(value).__name__}: "
      f"{value!r}."
    )


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
  """Checks that a value is one of a few; a `ValueError` lists them."""
  if value not in choices:
    raise ValueError(
      f"Expected {name} to be one of {', '.join(choices)}; found {value!r}."
    )
