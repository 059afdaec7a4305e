"""A demonstration: numbers, the claims checked on them, and a drawing."""

import dataclasses
import pathlib
import typing
from collections.abc import Callable, Sequence

from tasks.formats import files

if typing.TYPE_CHECKING:
  import numpy as np
  from matplotlib.axes import Axes
  from matplotlib.figure import Figure

# Colours that remain apart for the colour-blind (Okabe and Ito, 2008).
FIRST, SECOND, THIRD, QUIET = "#0072B2", "#D55E00", "#009E73", "#767676"
_DOTS_PER_INCH = 150


@dataclasses.dataclass(frozen=True)
class Check:
  """A claim, and whether the numbers bear it out.

  Attributes:
    claim: What is claimed, a sentence.
    found: What the numbers are, a text.
    holds: Whether the claim holds on them.
  """

  claim: str
  found: str
  holds: bool


def at_most(claim: str, left: float, right: float) -> Check:
  """Returns the check of an inequality, left <= right."""
  return Check(claim, f"{left:.6g} <= {right:.6g}", bool(left <= right))


def draw_arrow(
  axes: "Axes", vector: "np.ndarray", name: str, color: str
) -> None:
  """Draws a vector of the plane from the origin, with its name."""
  axes.annotate(
    "", tuple(vector), (0, 0), arrowprops={"arrowstyle": "->", "color": color}
  )
  axes.text(vector[0], vector[1], f" {name}", color=color)


@dataclasses.dataclass(frozen=True)
class Demonstration:
  """What a paper claims, on numbers.

  Attributes:
    title: The figure or theorem.
    setting: The numbers it is shown on, some sentences.
    checks: The claims.
    draw: Draws into an empty figure.
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
    """Writes the drawing.

    Args:
      path: A file whose name ends in .png, .svg or .pdf; it replaces another.

    Raises:
      OSError: If it cannot be written.
    """
    # No pyplot: it would look for a display.
    from matplotlib import figure  # noqa: PLC0415

    drawing = figure.Figure(figsize=(9, 4), layout="constrained")
    self.draw(drawing)
    with files.replacement(path, overwrite=True) as staged:
      drawing.savefig(staged, dpi=_DOTS_PER_INCH)
