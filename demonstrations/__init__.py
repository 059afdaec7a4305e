"""Demonstrations, which check papers' theorems and figures numerically.

Each demonstration takes seconds, needs no data, and applies the library's
rules. All demonstrations of a paper are in one file.
"""

import dataclasses
import importlib
import pathlib
import typing
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from tff_fair.files import atomic

if typing.TYPE_CHECKING:
  import numpy as np
  from matplotlib.axes import Axes
  from matplotlib.figure import Figure

__all__ = ["NAMES", "Check", "Demonstration", "demonstrate"]

# The module of each demonstration; it defines a function of the same name.
_MODULES: Mapping[str, str] = MappingProxyType(
  {
    "adafed_figure_1": "adafed",
    "adafed_theorem_4_1": "adafed",
    "adafed_theorem_5_1": "adafed",
    "adafed_affine_hull": "adafed",
    "fedfv_figure_1": "fedfv",
    "fedfv_theorem_2": "fedfv",
    "fedfv_theorem_3": "fedfv",
    "fedfv_theorem_4": "fedfv",
    "n_accadam_theorem_1": "adafedadam",
    "adafedadam_theorem_2": "adafedadam",
    "semi_vred_lemma_3": "semi_vred",
    "semi_vred_example_1": "semi_vred",
    "fedmgda_plus_theorem_1": "fedmgda_plus",
    "fedmgda_plus_theorem_2": "fedmgda_plus",
  }
)

NAMES = tuple(_MODULES)

# Colours that are distinct for the colour-blind (Okabe and Ito, 2008).
FIRST, SECOND, THIRD, QUIET = "#0072B2", "#D55E00", "#009E73", "#767676"
_DOTS_PER_INCH = 150


@dataclasses.dataclass(frozen=True)
class Check:
  """A claim, and whether the numbers support it.

  Attributes:
    claim: The claim, as a sentence.
    found: The numbers, as text.
    holds: Whether the claim holds for these numbers.
  """

  claim: str
  found: str
  holds: bool


def at_most(claim: str, left: float, right: float) -> Check:
  """Returns a check of the inequality left <= right."""
  return Check(claim, f"{left:.6g} <= {right:.6g}", bool(left <= right))


def draw_arrow(
  axes: "Axes", vector: "np.ndarray", name: str, color: str
) -> None:
  """Draws a plane vector from the origin, with its name."""
  axes.annotate(
    "", tuple(vector), (0, 0), arrowprops={"arrowstyle": "->", "color": color}
  )
  axes.text(vector[0], vector[1], f" {name}", color=color)


@dataclasses.dataclass(frozen=True)
class Demonstration:
  """A paper's claims, checked on numbers.

  Attributes:
    title: The figure or theorem.
    setting: Sentences that say how the numbers are chosen.
    checks: The claims.
    draw: A function that draws into an empty figure.
  """

  title: str
  setting: str
  checks: Sequence[Check]
  draw: Callable[["Figure"], None]

  @property
  def holds(self) -> bool:
    """Whether all claims hold."""
    return all(check.holds for check in self.checks)

  def describe(self) -> str:
    """Returns the title, the setting and the checks, as lines of text."""
    return "\n".join(
      [
        self.title,
        self.setting,
        *(
          f"[{'holds' if check.holds else 'FAILS'}] {check.claim} {check.found}"
          for check in self.checks
        ),
      ]
    )

  def save(self, path: pathlib.Path) -> None:
    """Writes the drawing to an image file."""
    # Do not use pyplot, which would look for a display.
    from matplotlib import figure  # noqa: PLC0415

    drawing = figure.Figure(figsize=(9, 4), layout="constrained")
    self.draw(drawing)
    with atomic.replacement(path, overwrite=True) as staged:
      drawing.savefig(staged, dpi=_DOTS_PER_INCH)


def demonstrate(name: str) -> Demonstration:
  """Returns the demonstration `name`; imports TensorFlow to compute it."""
  if name not in _MODULES:
    raise ValueError(
      f"unknown demonstration {name!r}; valid: {', '.join(NAMES)}."
    )
  module = importlib.import_module(f"{__name__}.{_MODULES[name]}")
  found: Demonstration = getattr(module, name)()
  return found
