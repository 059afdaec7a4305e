"""Reads tables of settings, from a sweep's file or its command line.

A setting is a field of `RunSpec`, "hparam.NAME" or "task_option.NAME". Its
values are TOML values, or strings as on a command line. Values stay as written,
since names of folders contain them. `plan` checks hyperparameters and task
options, which depend on the method and the task.
"""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence

from tff_fair import declared, spelling
from tff_fair.declared import FieldError, Value
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.spec import spec_text
from tff_fair.experiments.spec.run_spec import RunSpec

_LOG = "log"
_FORM = "LOW:HIGH, LOW:HIGH:log or LOW:HIGH:STEP"


@dataclasses.dataclass(frozen=True)
class Range:
  """A range of numbers for a search; its text is, for example, "0.001:1:log".

  Attributes:
    low: The smallest number.
    high: The largest number, greater than `low`.
    is_logarithmic: Whether the logarithm is drawn uniformly, instead of the
      number.
    step: The distance between numbers; None if all numbers are possible.
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

  @property
  def last(self) -> float:
    """The largest number that can be drawn: `high`, or the last step below."""
    if self.step is None:
      return self.high
    return self.low + self.num_steps(self.step) * self.step

  def num_steps(self, step: float) -> int:
    """Returns how many steps of a size fit into the range."""
    return int((self.high - self.low) / step + 1e-9)

  def __str__(self) -> str:
    """Returns the range as text, which `parse_range` reads."""
    words = [f"{self.low!r}", f"{self.high!r}"]
    if self.is_logarithmic:
      words.append(_LOG)
    if self.step is not None:
      words.append(f"{self.step!r}")
    return ":".join(words)


def parse_range(text: str) -> Range:
  """Parses a range such as "0.001:1:log"."""
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
  """Parses a number, as int if possible: some settings take only ints."""
  try:
    return int(text)
  except ValueError:
    return float(text)


@dataclasses.dataclass(frozen=True)
class Setting:
  """The values of a setting in a sweep, and the place that errors name."""

  values: Sequence[Value] | Range
  place: str = dataclasses.field(compare=False)
  varies: bool = dataclasses.field(default=False, compare=False)


Grid = Mapping[str, Setting]

_DOTTED = (spec_text.HPARAM, spec_text.TASK_OPTION)
# Settings that users cannot give, and the reasons.
_FORBIDDEN = {
  "output_dir": "the sweep gives each run its own folder",
  "algorithm": "methods are named by [[methods]], or by --algorithms",
}


def read_fixed(place: str, content: object) -> dict[str, Setting]:
  """Reads a table that gives each setting a single value."""
  return {
    name: Setting([_checked(f"{place}: {name}", name, value)], place)
    for name, value in _settings(place, content)
  }


def read_lists(place: str, content: object) -> dict[str, Setting]:
  """Reads a table that gives each setting a list of values."""
  grid = {}
  for name, values in _settings(place, content):
    if not isinstance(values, list) or not values:
      raise RunError(
        f"{place}: {name} must be a list of values, found {values!r}."
      )
    checked = [_checked(f"{place}: {name}", name, value) for value in values]
    if len(set(checked)) < len(values):
      raise RunError(f"{place}: {name} has a value twice.")
    grid[name] = Setting(checked, place, varies=True)
  return grid


def read_ranges(place: str, content: object) -> dict[str, Setting]:
  """Reads a table that gives each setting a range, such as "0.001:1:log"."""
  found = {}
  for name, text in _settings(place, content):
    try:
      found[name] = Setting(parse_range(str(text)), place, varies=True)
    except ValueError as error:
      raise RunError(f"{place}: {name}={text}: {error}.") from error
  return found


def merge(one: Grid, other: Grid, otherwise: str = "a fixed value") -> Grid:
  """Merges two tables; raises a `RunError` if both have the same setting.

  `otherwise` describes in the error what `one` contains.
  """
  for name in one.keys() & other.keys():
    raise RunError(
      f"{other[name].place}: {name} has {otherwise} too; give one."
    )
  return {**one, **other}


def _settings(place: str, content: object) -> Iterator[tuple[str, object]]:
  """Yields the flat names and the values of a table; checks the names."""
  if not isinstance(content, dict):
    raise RunError(f"{place}: must be a table, found {content!r}.")
  seen = set()
  for name, value in _flatten(place, content):
    if name in seen:
      raise RunError(f"{place}: {name} is given twice.")
    seen.add(name)
    if not name.startswith(_DOTTED):
      _check_name(f"{place}: {name}", name)
    yield name, value


def _flatten(
  place: str, content: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
  """Yields flat names and values, such as "hparam.q" of the table hparam.

  Instead of such a table, `content` may have strings NAME=VALUE.
  """
  for name, value in content.items():
    if name not in spec_text.FLAG_NAMES.values():
      yield name, value
    elif isinstance(value, dict):
      yield from ((f"{name}.{key}", item) for key, item in value.items())
    else:
      texts = map(str, value if isinstance(value, list) else [value])
      try:
        found = declared.assignments(texts)
      except FieldError as error:
        raise RunError(f"{place}: {name}={error}") from error
      yield from ((f"{name}.{key}", item) for key, item in found.items())


def _check_name(place: str, name: str) -> None:
  """Raises a `RunError` unless `name` is a setting that a sweep may change."""
  if name in _FORBIDDEN:
    raise RunError(f"{place}: cannot be set: {_FORBIDDEN[name]}.")
  valid = RunSpec.fields()
  if name not in valid:
    advice = spelling.suggest(
      name,
      sorted(valid.keys() - _FORBIDDEN.keys()),
      "`python -m binaries.train --help` lists them; those of methods and "
      "tasks are hparam.NAME and task_option.NAME.",
    )
    raise RunError(f"{place}: is not a setting of a run; {advice}")


def _checked(place: str, name: str, value: object) -> Value:
  """Returns `value` after all checks that need neither method nor task."""
  field = RunSpec.fields().get(name)
  if isinstance(value, list) and field is not None:
    raise RunError(
      f"{place} must be one value, found {value!r}; lists of values are for "
      "grids."
    )
  if not isinstance(value, str | int | float | bool):
    raise RunError(
      f"{place} must be a text, a number, true or false, found {value!r}."
    )
  if field is not None:
    try:
      if isinstance(value, str):
        field.parse(value)
      else:
        field.check(value)
    except FieldError as error:
      text = declared.as_text(value)
      raise RunError(f"{place}={text}: {error.problem}") from error
  return value
