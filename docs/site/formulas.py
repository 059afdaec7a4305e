"""MkDocs hook that draws formulas at build time, so pages need no script."""

import html
import re
import textwrap

import numpy as np
from matplotlib import rc_context
from matplotlib.path import Path
from matplotlib.textpath import TextPath

_BLOCK = re.compile(r"^```math\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LETTERS = {
  Path.MOVETO: "M",
  Path.LINETO: "L",
  Path.CURVE3: "Q",
  Path.CURVE4: "C",
  Path.CLOSEPOLY: "Z",
}
_SIZE = 17  # The font size in pixels.
_MARGIN = 2


def on_page_markdown(markdown: str, **_: object) -> str:
  """Returns a page's Markdown with an SVG element in place of each formula."""
  return _BLOCK.sub(lambda block: draw(" ".join(block[1].split())), markdown)


def draw(tex: str) -> str:
  """Returns a TeX formula as an SVG element."""
  with rc_context({"mathtext.fontset": "stix"}):
    path = TextPath((0, 0), f"${tex}$", size=_SIZE)
  left, bottom, right, top = path.get_extents().padded(_MARGIN).extents
  outlines = " ".join(
    _LETTERS[code] + (_numbers(points) if code != Path.CLOSEPOLY else "")
    for points, code in path.iter_segments(simplify=False)
  )
  return textwrap.dedent(f"""\
    <svg class="formula" role="img" aria-label="{html.escape(tex)}"
    width="{right - left:.1f}" height="{top - bottom:.1f}"
    viewBox="{left:.1f} {-top:.1f} {right - left:.1f} {top - bottom:.1f}">
    <path d="{outlines}"/></svg>""")


def _numbers(points: np.ndarray) -> str:
  """Returns each point's x and -y as text, since y points down in SVG."""
  return " ".join(f"{x:.2f} {-y:.2f}" for x, y in points.reshape(-1, 2))
