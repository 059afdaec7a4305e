"""Checks of the values that callers pass, with errors that say what to mend."""

import math
import numbers
import struct


class OptionError(ValueError):
  """An option, or a hyperparameter, has a value that it must not have.

  Attributes:
    option: Its name, as an argument of `tff_fair.algorithms.build`.
  """

  def __init__(self, option: str, message: str) -> None:
    super().__init__(option, message)  # Both, so that a copy has them, too.
    self.option = option

  def __str__(self) -> str:
    return str(self.args[1])


def as_float32(value: float) -> float:
  """Returns a number as tensors hold it: 1e39 is infinite, 1e-46 is zero."""
  try:
    # An integer of any size is a float first, or an OverflowError.
    single: float = struct.unpack("f", struct.pack("f", float(value)))[0]
  except OverflowError:
    return math.inf if value > 0 else -math.inf
  return single


def check_number(
  name: str,
  value: float,
  *,
  minimum: float = -math.inf,
  maximum: float = math.inf,
  exclude_minimum: bool = False,
  exclude_maximum: bool = False,
  in_float32: bool = False,
) -> None:
  """Checks that a value is a finite number in an interval.

  Args:
    name: What the caller calls the value.
    value: The value.
    minimum: The least value allowed.
    maximum: The greatest value allowed.
    exclude_minimum: Whether `minimum` itself is not allowed.
    exclude_maximum: Whether `maximum` itself is not allowed.
    in_float32: Whether float32 tensors hold the value. Then it must be finite
      there, and no bound that is excluded: a rate of 1e-46 is zero there.

  Raises:
    TypeError: If `value` is not a real number.
    OptionError: If it is not finite or out of the interval.
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
  is_wrong = not finite or too_low or too_high
  in_tensors = ""
  if in_float32 and not is_wrong:
    single = as_float32(value)
    is_wrong = (
      math.isinf(single)
      or (exclude_minimum and single <= minimum)
      or (exclude_maximum and single >= maximum)
    )
    in_tensors = f", which is {single:g} in float32"
  if is_wrong:
    valid = interval(minimum, maximum, exclude_minimum, exclude_maximum)
    raise OptionError(
      name, f"Expected {name} in {valid}, found {value!r}{in_tensors}."
    )


def interval(
  minimum: float, maximum: float, exclude_minimum: bool, exclude_maximum: bool
) -> str:
  """Returns an interval in the notation of mathematics, as "[0, 1)"."""
  left = "(" if exclude_minimum or math.isinf(minimum) else "["
  right = ")" if exclude_maximum or math.isinf(maximum) else "]"
  return f"{left}{minimum:g}, {maximum:g}{right}"


def check_integer(name: str, value: int, *, minimum: float) -> None:
  """Checks that a value is an integer and not below a minimum.

  Raises:
    TypeError: If `value` is not an integer.
    OptionError: If it is below `minimum`.
  """
  if not isinstance(value, numbers.Integral) or isinstance(value, bool):
    raise TypeError(
      f"Expected {name} to be an integer, found {type(value).__name__}: "
      f"{value!r}."
    )
  if value < minimum:
    raise OptionError(
      name, f"Expected {name} to be {minimum} or more, found {value}."
    )


def check_boolean(name: str, value: bool) -> None:
  """Checks that a value is a boolean; a `TypeError` says that it is not."""
  if not isinstance(value, bool):
    raise TypeError(
      f"Expected {name} to be True or False, found {type(value).__name__}: "
      f"{value!r}."
    )


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
  """Checks that a value is one of a few; an `OptionError` lists them."""
  if value not in choices:
    raise OptionError(
      name,
      f"Expected {name} to be one of {', '.join(choices)}; found {value!r}.",
    )
