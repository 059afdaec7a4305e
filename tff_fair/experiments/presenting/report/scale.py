"""Scales of charts: map values to positions, with ticks at round numbers."""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tff_fair.experiments import number_text

_STEPS = (1, 2, 2.5, 5, 10)
_TOLERANCE = 1e-9  # Rounding may shift a tick by this share of a step.
# From this ratio of the largest to the smallest value, a scale is logarithmic.
_LOGARITHMIC_FROM = 100


class Unit(NamedTuple):
  """A unit of values, such as MB: its size, and its name, if any."""

  size: float
  name: str


# Units, each a thousand times the previous one.
BYTES = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
COUNTS = ("", "thousand", "million", "10⁹", "10¹²", "10¹⁵", "10¹⁸")


def unit(largest: float, names: Sequence[str]) -> Unit:
  """Returns the unit in which a number has one to three whole digits."""
  power = 0
  if 1 <= largest < math.inf:
    # Despite rounding errors, 1e15 must not get the unit of 1e12.
    power = math.floor(math.log10(largest) / 3 + _TOLERANCE)
  power = min(power, len(names) - 1)
  return Unit(1000.0**power, names[power])


@dataclasses.dataclass(frozen=True)
class Scale:
  """A range of values, linear or logarithmic; its ticks may have names."""

  low: float  # The value at position 0.
  high: float  # The value at position 1; may be less than `low`.
  ticks: tuple[float, ...]
  is_logarithmic: bool = False
  names: tuple[str, ...] | None = None

  def places(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Returns positions: 0 to 1 in the range, NaN for values not finite."""
    found = np.asarray(values, np.float64)
    low, high = self.low, self.high
    with np.errstate(divide="ignore", invalid="ignore"):
      if self.is_logarithmic:
        found, low, high = np.log10(found), math.log10(low), math.log10(high)
      places = (found - low) / (high - low)
    return np.where(np.isfinite(places), places, np.nan)

  def clipped(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Returns the values, with those out of range moved to its ends."""
    low, high = sorted((self.low, self.high))
    return np.asarray(values, np.float64).clip(low, high)

  @property
  def labels(self) -> tuple[str, ...]:
    """The ticks as text; all numbers have the same number of decimals."""
    if self.names is not None:
      return self.names
    if self.is_logarithmic:
      return tuple(f"{tick:g}" for tick in self.ticks)
    decimals = max(map(_decimals, self.ticks), default=0)
    return tuple(number_text.grouped(tick, decimals) for tick in self.ticks)


def linear(
  low: float,
  high: float,
  *,
  num_ticks: int = 6,
  bounds: tuple[float, float] = (-math.inf, math.inf),
  is_tight: bool = False,
  is_whole: bool = False,
) -> Scale:
  """Returns a scale over a range; it ends at ticks unless `is_tight`."""
  if not math.isfinite(low) or not math.isfinite(high):
    low, high = 0.0, 1.0
  if low == high and not is_tight:
    spread = max(abs(low), 1) / 10
    low, high = max(low - spread, bounds[0]), min(high + spread, bounds[1])
  if low >= high:
    high = low + max(abs(low), 1)
  step = tick_step(high - low, num_ticks)
  if is_whole:
    step = 5.0 if step == 2.5 else max(step, 1.0)
  first = math.floor(low / step + _TOLERANCE)
  last = math.ceil(high / step - _TOLERANCE)
  if is_tight:
    first = math.ceil(low / step - _TOLERANCE)
    last = math.floor(high / step + _TOLERANCE)
  # Round multiples of the step, to avoid ticks like 0.30000000000000004.
  ticks = tuple(float(f"{n * step:.12g}") for n in range(first, last + 1))
  if is_tight:
    return Scale(low, high, ticks)
  within = tuple(t for t in ticks if bounds[0] <= t <= bounds[1])
  return Scale(max(ticks[0], bounds[0]), min(ticks[-1], bounds[1]), within)


def with_margins(
  low: float, high: float, *, bounds: tuple[float, float]
) -> Scale:
  """Returns a linear scale with some room at both ends, within bounds."""
  room = (high - low) / 20
  return linear(
    max(low - room, bounds[0]), min(high + room, bounds[1]), bounds=bounds
  )


def tick_step(length: float, num_ticks: int) -> float:
  """Returns a step between ticks: 1, 2, 2.5 or 5 times a power of ten."""
  rough = length / num_ticks
  power = 10.0 ** math.floor(math.log10(rough))
  return next(s * power for s in _STEPS if s * power >= rough * (1 - 1e-9))


def logarithmic(low: float, high: float) -> Scale | None:
  """Returns a logarithmic scale if a range needs one, else None."""
  if not (low > 0 and high / low >= _LOGARITHMIC_FROM):
    return None
  first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
  step = max(1, math.ceil((last - first) / 6))
  ticks = tuple(10.0**n for n in range(first, last + 1, step))
  return Scale(10.0**first, 10.0**last, ticks, is_logarithmic=True)


def _decimals(value: float) -> int:
  text = f"{value:.10f}".rstrip("0")
  return len(text.partition(".")[2])
