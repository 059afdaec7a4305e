"""Draws the pictures in the documentation as SVG.

python -m benchmarks.pictures worst_clients FOLDER PICTURE METHOD[:WEIGHTS] ...
python -m benchmarks.pictures stationarity FOLDER PICTURE

worst_clients  The picture in the README: the accuracy of the worst clients by
               round, for the finished runs in FOLDER, such as those of a sweep.
               A line is a METHOD with its client WEIGHTS (fedavg:uniform): the
               mean over its seeds, with a band of one standard deviation. The
               picture needs no other file, and adapts to dark mode.
stationarity   The picture in docs/certificates.md: three runs and their
               certificates. Runs missing in FOLDER are trained first, with all
               clients of a small task in every round, and without minibatches,
               so that no random draw hides the geometry.
"""

import pathlib
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib import figure

from binaries import command_line
from binaries.command_line import UsageError
from tff_fair import experiments, methods as registry
from tff_fair.experiments import RunSpec
from tff_fair.experiments.analysis import certificates
from tff_fair.experiments.presenting.report import frame, scale
from tff_fair.experiments.presenting.report.frame import (
  Group,
  Path,
  Shape,
  Text,
)
from tff_fair.experiments.runs import discovery

_COLUMN = "accuracy/worst_10"
_MOST = 40  # The upper end of the y axis, in percent.
_LINE = 15  # The least vertical distance between two names.

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
.grid, .axis { stroke: var(--grid); }
.line { fill: none; stroke: var(--c); stroke-width: 1.8; }
.band { fill: var(--c); opacity: 0.16; }
.name { fill: var(--c); font-weight: 600; }
.of0 { --c: var(--c0); } .of1 { --c: var(--c1); } .of2 { --c: var(--c2); }
.of3 { --c: var(--c3); } .of4 { --c: var(--c4); }"""


def curve(
  folder: pathlib.Path, title: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Returns rounds, and accuracy (mean and std over a method's seeds) in %."""
  runs = [r for r in discovery.find([folder]) if r.title == title]
  seeds = [run.seed for run in runs]
  if not seeds or len(set(seeds)) < len(seeds):
    raise UsageError(
      f"{folder}: expected runs of {title}, one a seed; found {seeds}."
    )
  found = pd.concat(
    [run.evaluations.set_index("round")[_COLUMN] for run in runs], axis=1
  )
  percent = 100 * found.to_numpy()
  spread = percent.std(axis=1, ddof=1) if len(runs) > 1 else 0 * percent[:, 0]
  return found.index.to_numpy(), percent.mean(axis=1), spread


def worst_clients(folder: pathlib.Path, methods: Sequence[str]) -> str:
  """Returns the SVG of the worst clients' accuracy against rounds."""
  titles = [registry.title(*method.split(":")) for method in methods]
  curves = [curve(folder, title) for title in titles]
  last = max(rounds[-1] for rounds, _, _ in curves)
  chart = frame.Frame(
    scale.linear(0, last, num_ticks=5, is_tight=True, is_whole=True),
    scale.linear(0, _MOST, num_ticks=4),
    "round",
    width=496,
    height=306,
    right=140,
    top=44,
    bottom=44,
  )
  right = chart.width - chart.right
  heights = _apart([chart.y_pixels([means[-1]])[0] for _, means, _ in curves])
  lines, ends = [], []
  for number, (title, (rounds, means, spread), height) in enumerate(
    zip(titles, curves, heights, strict=True)
  ):
    x, low, line, high = (
      chart.x_pixels(rounds),
      *(chart.y_pixels(means + k * spread) for k in (-1, 0, 1)),
    )
    ends.append(f"{title} {means[-1]:.1f} %")
    parts: list[Shape] = [
      Path(frame.band_path(x, low, high), "band"),
      Path(frame.line_path(x, line), "line"),
      Text(title, right + 7, height + 4, class_="name"),
    ]
    lines.append(Group(parts, f"of{number}"))
  heading = "Test accuracy of the worst 10 % of the clients (%)"
  drawing = chart.drawing(
    "worst-clients",
    "Accuracy of the worst 10 % of the clients against rounds",
    f"At the end: {', '.join(ends)}.",
    [Text(heading, 14, 22, class_="heading"), *chart.axes(), *lines],
  ).__html__()
  ground = '<rect width="100%" height="100%" class="ground"/>'
  return f"{drawing}\n".replace(
    "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1
  ).replace("</desc>", f"</desc>\n<style>{_STYLE}</style>{ground}", 1)


def _apart(heights: Sequence[float]) -> list[float]:
  """Returns heights at which names do not overlap, given desired heights."""
  found = [0.0] * len(heights)
  before = float("inf")
  for place in sorted(range(len(heights)), key=lambda k: -heights[k]):
    before = found[place] = min(heights[place], before - _LINE)
  return found


_DONE = RunSpec(
  task="digits",
  task_options={"num_clients": 10, "model": "logistic_regression"},
  algorithm="fedmgda",
  sampling="all",
  batch_size=512,
  client_learning_rate=1.0,
  total_rounds=120,
)
_RUNS = {
  "goes on": (_DONE.replace(client_learning_rate=0.1), "#0072B2"),
  "done": (_DONE, "#009E73"),
  "stopped too early": (
    _DONE.replace(client_learning_rate_decay=0.9),
    "#D55E00",
  ),
}


def stationarity(folder: pathlib.Path, picture: pathlib.Path) -> None:
  """Trains missing runs; draws accuracy and stationarity into `picture`."""
  drawing = figure.Figure(figsize=(9, 3.4), layout="constrained")
  left, right = drawing.subplots(1, 2)
  for title, (spec, color) in _RUNS.items():
    run = experiments.run(spec, folder / title.replace(" ", "_"))
    found = certificates.measured_stationarity(run.rounds)
    left.plot(
      run.evaluations["round"],
      100 * run.evaluations["accuracy/mean"],
      color=color,
      label=title,
    )
    right.plot(list(found), list(found.values()), color=color, label=title)
  left.set(title="Mean test accuracy (%)", ylim=(0, 100))
  right.set(title="Pareto stationarity", yscale="log", ylim=(0.01, 1))
  for axis in (left, right):
    axis.set_xlabel("round")
    axis.grid(alpha=0.3)
    axis.spines[["top", "right"]].set_visible(False)
  right.legend(frameon=False)
  with mpl.rc_context({"svg.hashsalt": "tff-fair"}):
    drawing.savefig(picture, format="svg", metadata={"Date": None})


def main(*words: str) -> None:
  """Draws the picture that `words` describe, as in the module's docstring."""
  match words:
    case "stationarity", folder, picture:
      stationarity(pathlib.Path(folder), pathlib.Path(picture))
    case "worst_clients", folder, picture, *methods:
      drawn = worst_clients(pathlib.Path(folder), methods)
      pathlib.Path(picture).write_text(drawn)
    case _:
      raise UsageError(
        "expected worst_clients or stationarity, FOLDER and PICTURE; --help "
        "shows all."
      )


PROGRAM = command_line.Flags().program(
  main, __doc__, "Flags", arguments="worst_clients|stationarity FOLDER PICTURE"
)


if __name__ == "__main__":
  PROGRAM.run()
