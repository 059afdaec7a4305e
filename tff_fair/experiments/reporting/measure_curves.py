"""Measures over the evaluations of the methods of a task, to be drawn."""

from collections.abc import Mapping
from typing import NamedTuple

import pandas as pd

from tff_fair.experiments.comparing import (
  client_statistics,
  evaluations,
  measures,
)
from tff_fair.experiments.comparing.measures import Measure
from tff_fair.experiments.reporting import curves
from tff_fair.experiments.reporting.curves import Curve
from tff_fair.experiments.reporting.methods import Method, TaskRuns
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.scores import Score


class Shown(NamedTuple):
  """A measure over the evaluations to draw.

  Attributes:
    name: Its name.
    title: The title of its chart.
    column: Its column in the table of evaluations, if it has one.
    measure: The measure.
    sign: Follows its numbers.
    tail: Percent of the clients that it is about; None for all of them.
    is_folded: Whether its chart folds.
  """

  name: str
  title: str
  column: str
  measure: Measure
  sign: str
  tail: int | None
  is_folded: bool


# A measure's curve for each method that has one, by the method's number.
Curves = Mapping[Shown, Mapping[int, Curve]]

_TAILS = {"worst_10": 10, "best_10": 10, "worst_20": 20, "worst_30": 30}
_FOLDED = ("worst_20", "worst_30", "error_relative_std")


def shown_of(score: Score) -> list[Shown]:
  """Returns the measures to draw for runs with a score."""
  titles = {
    "mean": f"Mean {score.noun}",
    "std": "Standard deviation over clients",
    "worst_10": f"{score.title} of the worst 10 %",
    "worst_20": f"{score.title} of the worst 20 %",
    "worst_30": f"{score.title} of the worst 30 %",
    "best_10": f"{score.title} of the best 10 %",
    "loss": "Mean loss",
    "loss_max": "Loss of the worst client",
    "error_relative_std": "Relative standard deviation of the error",
    "r2_median": "Median R²",
  }
  return [
    Shown(
      name,
      titles[name],
      measures.evaluation_column(name, score),
      measure,
      score.sign if measure.scale == score.scale else "",
      _TAILS.get(name),
      name in _FOLDED,
    )
    for name, measure in measures.of(score).items()
    if name in titles
  ]


def of_task(task: TaskRuns) -> Curves:
  """Returns all curves, of each method that has some."""
  return {
    shown: {
      method.number: curve
      for method in task.methods
      if (curve := _curve(method, shown)) is not None
    }
    for shown in shown_of(task.score)
  }


def _curve(method: Method, shown: Shown) -> Curve | None:
  if shown.name not in client_statistics.WITHOUT_COLUMN:
    return curves.over_seeds(method, lambda run: run.evaluations, shown.column)

  def of_clients(run: Run) -> pd.DataFrame:
    values = evaluations.measure_over_rounds(run, shown.name, honest=False)
    return pd.DataFrame({ROUND: run.evaluations[ROUND], shown.column: values})

  return curves.over_seeds(method, of_clients, shown.column)
