"""The settings that a search varies, each with its values or its range."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.sweeps.ranges import Range

if typing.TYPE_CHECKING:
  import optuna

# A number of a range, or the text of a choice.
Value = str | int | float
# Enough to tell settings apart, and short enough for names of folders.
_DIGITS = 4


@dataclasses.dataclass(frozen=True)
class Dimension:
  """A setting that a search varies.

  Attributes:
    choices: The texts of its values; none for a range.
    range: The range of its numbers; None for choices.
    is_integer: Whether it takes integers alone.
  """

  choices: tuple[str, ...] = ()
  range: Range | None = None
  is_integer: bool = False

  def distribution(self) -> optuna.distributions.BaseDistribution:
    """Returns it as Optuna has it."""
    from optuna import distributions  # noqa: PLC0415

    if self.range is None:
      return distributions.CategoricalDistribution(self.choices)
    low, high, step = self.range.low, self.range.high, self.range.step
    if self.is_integer:
      return distributions.IntDistribution(
        int(low), int(high), self.range.is_logarithmic, int(step or 1)
      )
    return distributions.FloatDistribution(
      low, high, self.range.is_logarithmic, step
    )

  def text(self, value: Value) -> str:
    """Returns a value as a run takes it: numbers have four digits."""
    if self.range is None or self.is_integer:
      return str(value)
    number = float(value)
    # Steps are round numbers already, but for the last bits.
    text = f"{number:.{10 if self.range.step else _DIGITS}g}"
    is_within = self.range.low <= float(text) <= self.range.high
    return text if is_within else repr(number)

  def value(self, text: str) -> Value:
    """Returns the value of a text."""
    if self.range is None:
      return text
    return int(text) if self.is_integer else float(text)

  @property
  def examples(self) -> tuple[str, ...]:
    """Texts of all choices, or of the bounds."""
    if self.range is None:
      return self.choices
    return tuple(self.text(n) for n in (self.range.low, self.range.high))

  def values(self) -> tuple[str, ...] | None:
    """Returns the texts of all values; None where there is no end of them."""
    if self.range is None:
      return self.choices
    step = self.range.step or (1 if self.is_integer else None)
    if step is None or self.range.is_logarithmic:
      return None
    count = int((self.range.high - self.range.low) / step + 1e-9) + 1
    return tuple(self.text(self.range.low + n * step) for n in range(count))

  def __str__(self) -> str:
    """Returns it as somebody wrote it."""
    return ",".join(self.choices) if self.range is None else str(self.range)


Space = Mapping[str, Dimension]


def of_range(
  place: str, name: str, drawn: Range, annotation: object
) -> Dimension:
  """Returns the dimension of a range.

  Args:
    place: Where the range is, for errors.
    name: The name of the setting.
    drawn: The range.
    annotation: The type of its values.

  Raises:
    RunError: If the setting takes no such numbers.
  """
  kinds = (
    typing.get_args(annotation)
    if isinstance(annotation, types.UnionType)
    else (annotation,)
  )
  if float in kinds:
    return Dimension(range=drawn)
  if int not in kinds:
    raise RunError(
      f"{place}: {name}={drawn}: takes no numbers; give its values in a grid."
    )
  numbers = (drawn.low, drawn.high, drawn.step or 1)
  if not all(isinstance(number, int) for number in numbers):
    raise RunError(f"{place}: {name}={drawn}: takes integers alone.")
  return Dimension(range=drawn, is_integer=True)
