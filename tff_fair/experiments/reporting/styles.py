"""The looks of methods: colour, dashes and markers tell them apart.

Colours are those of Okabe and Ito (2008), which remain apart for the
colour-blind, without their yellow, which does not show on white. The style
sheet has them under the names of classes.
"""

import dataclasses

NUM_COLORS = 7
_DASHES = (None, "7 3", "2 3", "9 3 2 3", "14 4", "9 3 2 3 2 3")
# Paths around the origin, some 8 wide.
MARKERS = (
  "M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",  # A circle,
  "M-3.1-3.1h6.2v6.2h-6.2z",  # a square,
  "M0-4.2l4.2 7.4h-8.4z",  # triangles,
  "M0 4.2l-4.2-7.4h8.4z",
  "M0-4.4l4.4 4.4l-4.4 4.4l-4.4-4.4z",  # a diamond,
  "M-1.3-4h2.6v2.7h2.7v2.6h-2.7v2.7h-2.6v-2.7h-2.7v-2.6h2.7z",  # a plus,
  "M0-4.4l1.2 2.9h3.2l-2.5 2l1 3.2l-2.9-2l-2.9 2l1-3.2l-2.5-2h3.2z",  # a star.
)


@dataclasses.dataclass(frozen=True)
class Style:
  """The look of a method.

  Attributes:
    color: Number of the colour.
    dashes: Dashes of its lines; None where they are solid.
    marker: Path of its markers, around the origin.
  """

  color: int
  dashes: str | None
  marker: str


def style(index: int) -> Style:
  """Returns the look of a method by its number; 42 differ, then they repeat."""
  turn, color = divmod(index, NUM_COLORS)
  marker = MARKERS[(color + turn) % len(MARKERS)]
  return Style(color, _DASHES[turn % len(_DASHES)], marker)
