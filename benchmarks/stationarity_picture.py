"""Draws three runs and their certificates: the picture of docs/certificates.md.

  python -m benchmarks.stationarity_picture FOLDER PICTURE

Runs that FOLDER does not have are trained first: all clients of a small task in
every round, without minibatches, so that no draw hides the geometry.
"""

import pathlib
import sys

import matplotlib as mpl
from matplotlib import figure

from tff_fair import experiments
from tff_fair.experiments import RunSpec, certificates
from tff_fair.experiments.runs.run import Run

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


def draw(runs: dict[str, Run], path: pathlib.Path) -> None:
  """Draws accuracy and stationarity of runs over rounds.

  Args:
    runs: The runs, by their titles.
    path: The SVG to write.
  """
  drawing = figure.Figure(figsize=(9, 3.4), layout="constrained")
  left, right = drawing.subplots(1, 2)
  for title, run in runs.items():
    found = certificates.measured_stationarity(run.rounds)
    color = _RUNS[title][1]
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
    drawing.savefig(path, format="svg", metadata={"Date": None})


def main(folder: str, picture: str) -> None:
  """Trains what is missing, and draws."""
  runs = {
    title: experiments.run(spec, pathlib.Path(folder) / title.replace(" ", "_"))
    for title, (spec, _) in _RUNS.items()
  }
  draw(runs, pathlib.Path(picture))


if __name__ == "__main__":
  main(*sys.argv[1:])
