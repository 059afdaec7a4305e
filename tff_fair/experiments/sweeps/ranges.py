"""Ranges that a search draws numbers from, as text: "0.001:1:log"."""

import dataclasses
import math

_LOG = "log"
_FORM = "LOW:HIGH, LOW:HIGH:log or LOW:HIGH:STEP"


@dataclasses.dataclass(frozen=True)
class Range:
  """The numbers between two bounds.

  Attributes:
    low: The smallest.
    high: The largest; greater.
    is_logarithmic: Whether equal ratios are equally likely, not equal
      differences.
    step: The distance between numbers; None where all are possible.
  """

  low: float
  high: float
  is_logarithmic: bool = False
  step: float | None = None

  def __post_init__(self) -> None:
    if not (math.isfinite(self.low) and math.isfinite(self.high)):
      raise ValueError("expected two finite bounds")
    if not self.low < self.high:
      raise ValueError("expected LOW to be less than HIGH")
    if self.is_logarithmic and self.low <= 0:
      raise ValueError("expected LOW above 0, since 0 has no logarithm")
    if self.is_logarithmic and self.step is not None:
      raise ValueError("expected log or a step, not both")
    if self.step is not None and not 0 < self.step <= self.high - self.low:
      raise ValueError("expected a step above 0 that fits into the range")

  def __str__(self) -> str:
    """Returns it as `parse` reads it."""
    words = [f"{self.low!r}", f"{self.high!r}"]
    if self.is_logarithmic:
      words.append(_LOG)
    if self.step is not None:
      words.append(f"{self.step!r}")
    return ":".join(words)


def parse(text: str) -> Range:
  """Reads a range.

  Raises:
    ValueError: If it is none; the text says what was expected.
  """
  low, colon, rest = text.partition(":")
  high, _, third = rest.partition(":")
  is_logarithmic = third == _LOG
  try:
    bounds = _number(low), _number(high)
    step = _number(third) if third and not is_logarithmic else None
  except ValueError:
    raise ValueError(f"expected {_FORM}") from None
  if not colon:
    raise ValueError(f"expected {_FORM}")
  return Range(*bounds, is_logarithmic=is_logarithmic, step=step)


def _number(text: str) -> float:
  """Returns an integer as one: some settings take no others."""
  try:
    return int(text)
  except ValueError:
    return float(text)
