"""The style sheet of a page."""

import pathlib
from collections.abc import Iterator

from tff_fair.experiments.reporting import heat_map, styles

_FOLDER = pathlib.Path(__file__).parent / "style"
# In this order: later rules replace earlier ones.
_FILES = ("colors", "text", "tables", "choices", "charts", "media")


def text(num_methods: int) -> str:
  """Returns the style sheet of a page.

  Args:
    num_methods: The largest number of methods of a task.
  """
  files = [(_FOLDER / f"{name}.css").read_text("utf-8") for name in _FILES]
  numbered = [*_looks(), *_choices(num_methods)]
  return "\n".join([*files, *numbered])


def _looks() -> Iterator[str]:
  for color in range(styles.NUM_COLORS):
    yield f".c{color}{{--c:var(--c{color})}}"
  for shade in range(1, heat_map.NUM_SHADES + 1):
    yield f".p{shade}{{fill:var(--p{shade})}}"
    yield f".n{shade}{{fill:var(--n{shade})}}"


def _choices(num_methods: int) -> Iterator[str]:
  """Yields what hides a method, and what makes it stand out."""
  for n in range(num_methods):
    # A box without a tick hides its method.
    yield f".task:has(.show-m{n}:not(:checked)) .m{n}{{display:none}}"
    # A method stands out while the mouse is on its name, or on its line or
    # band in a chart; otherwise, if it is chosen.
    for scope in (
      f".task:has(.entry-m{n}:hover) figure",
      f".task:not(:has(.entry:hover)):has(.choose-m{n}:checked) figure",
      f"figure svg:has(:is(.series,.band).m{n}:hover)",
    ):
      yield f"{scope} :is(.series,.band):not(.m{n}){{opacity:.15}}"
      yield f"{scope} .band.m{n}{{fill-opacity:.2}}"
