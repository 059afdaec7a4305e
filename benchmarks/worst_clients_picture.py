"""Draws the accuracy of the worst clients against rounds: README's picture.

  python -m benchmarks.worst_clients_picture FOLDER PICTURE METHOD ...

FOLDER has finished runs, such as a sweep leaves. A line is a method's mean over
its seeds, the band one standard deviation. The picture is an SVG that stands
alone, in light and dark.
"""

import pathlib
import sys
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from tff_fair import methods as registry
from tff_fair.experiments.runs import finding

_COLUMN = "accuracy/worst_10"
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 396, 44, 262
_WIDTH, _HEIGHT = 496, 306
_MOST = 40  # Percent at the top.
_STEP = 10
_LINE = 15  # The least height between two names.

_STYLE = """\
svg { --page: #ffffff; --ink: #1b2127; --quiet: #59636e; --grid: #e9edf1;
  --c0: #59636e; --c1: #0072b2; --c2: #009e73; --c3: #d55e00; --c4: #cc79a7;
  font-family: system-ui, "DejaVu Sans", sans-serif; }
@media (prefers-color-scheme: dark) { svg { --page: #13171b; --ink: #e7ebef;
  --quiet: #9ea9b4; --grid: #252c33; --c0: #9ea9b4; --c1: #3d9fdb;
  --c2: #1bb58b; --c3: #e8751a; --c4: #d98fb8; } }
.ground { fill: var(--page); }
text { fill: var(--quiet); font-size: 11.5px; }
.heading { fill: var(--ink); font-size: 13px; font-weight: 600; }
.grid { stroke: var(--grid); }
.line { fill: none; stroke: var(--c); stroke-width: 1.8; }
.band { fill: var(--c); opacity: 0.16; }
.name { fill: var(--c); font-weight: 600; }"""


def curve(
  folder: pathlib.Path, method: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns rounds, means and deviations over seeds, in percent."""
  runs = [r for r in finding.find([folder]) if r.algorithm == method]
  seeds = [run.seed for run in runs]
  if not seeds or len(set(seeds)) < len(seeds):
    sys.exit(f"{folder}: expected runs of {method}, one a seed; found {seeds}.")
  found = pd.concat(
    [run.evaluations.set_index("round")[_COLUMN] for run in runs], axis=1
  )
  percent = 100 * found.to_numpy()
  spread = percent.std(axis=1, ddof=1) if len(runs) > 1 else 0 * percent[:, 0]
  return found.index.to_numpy(), percent.mean(axis=1), spread


def draw(folder: pathlib.Path, methods: Sequence[str]) -> str:
  """Returns the picture."""
  curves = [curve(folder, method) for method in methods]
  last = max(rounds[-1] for rounds, _, _ in curves)
  ends = [
    f"{registry.title(m)} {c[1][-1]:.1f} %"
    for m, c in zip(methods, curves, strict=True)
  ]
  parts = [
    '<svg xmlns="http://www.w3.org/2000/svg" '
    f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" '
    'role="img" aria-labelledby="title text">',
    '<title id="title">Accuracy of the worst 10 % of the clients against '
    "rounds</title>",
    f'<desc id="text">At the end: {", ".join(ends)}.</desc>',
    f"<style>\n{_STYLE}\n</style>",
    '<rect width="100%" height="100%" class="ground"/>',
    '<text x="14" y="22" class="heading">Test accuracy of the worst 10 % of '
    "the clients (%)</text>",
    *(
      f'<path d="M{_LEFT} {_y(v):.1f}H{_RIGHT}" class="grid"/>'
      f'<text x="{_LEFT - 7}" y="{_y(v) + 4:.1f}" text-anchor="end">{v}</text>'
      for v in range(0, _MOST + 1, _STEP)
    ),
    *(
      f'<text x="{_x(r, last):.1f}" y="{_BOTTOM + 17}" text-anchor="middle">'
      f"{r}</text>"
      for r in curves[0][0]
    ),
    f'<text x="{(_LEFT + _RIGHT) / 2}" y="{_BOTTOM + 34}" '
    'text-anchor="middle">round</text>',
  ]
  names = _apart([_y(means[-1]) for _, means, _ in curves])
  for number, (method, (rounds, means, spread)) in enumerate(
    zip(methods, curves, strict=True)
  ):
    xs = [_x(r, last) for r in rounds]
    upper, lower = means + spread, np.maximum(means - spread, 0)
    band = [*zip([*xs, *xs[::-1]], [*upper, *lower[::-1]], strict=True)]
    parts.append(
      f'<g style="--c: var(--c{number})">'
      f'<path d="M{_path(band)}z" class="band"/>'
      f'<path d="M{_path(zip(xs, means, strict=True))}" class="line"/>'
      f'<text x="{_RIGHT + 7}" y="{names[number] + 4:.1f}" class="name">'
      f"{registry.title(method)}</text></g>"
    )
  return "\n".join([*parts, "</svg>", ""])


def _x(round_num: float, last: float) -> float:
  return _LEFT + (_RIGHT - _LEFT) * round_num / last


def _y(percent: float) -> float:
  return _BOTTOM - (_BOTTOM - _TOP) * percent / _MOST


def _path(points: Iterable[tuple[float, float]]) -> str:
  return "L".join(f"{x:.1f} {_y(value):.1f}" for x, value in points)


def _apart(heights: Sequence[float]) -> list[float]:
  """Returns heights of names that do not cover each other."""
  found = [0.0] * len(heights)
  before = float("inf")
  for place in sorted(range(len(heights)), key=lambda k: -heights[k]):
    before = found[place] = min(heights[place], before - _LINE)
  return found


if __name__ == "__main__":
  _folder, _picture, *_methods = sys.argv[1:]
  pathlib.Path(_picture).write_text(draw(pathlib.Path(_folder), _methods))
