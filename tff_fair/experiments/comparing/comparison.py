"""Runs side by side, as a data frame."""

import os
from collections.abc import Iterable, Sequence

import pandas as pd

from tff_fair.experiments.comparing import (
  evaluations,
  formats,
  measures,
  tables,
)
from tff_fair.experiments.comparing.argument_error import ArgumentError
from tff_fair.experiments.runs import finding
from tff_fair.experiments.runs.run import Run

COLUMNS = ("mean", "std", "worst_10", "best_10")


def compare(
  runs: Iterable[Run | str | os.PathLike[str]] | str | os.PathLike[str],
  baseline: str | None = None,
  columns: Sequence[str] = COLUMNS,
  *,
  round: str | int = evaluations.LAST,
  criterion: str = "mean",
  honest: bool = False,
  unfinished: bool = False,
) -> pd.DataFrame:
  """Compares runs: a row for each method, over its seeds.

      compare(runs)
      compare("outputs/first", baseline="fedavg", columns=["mean", "worst_10"])

  Args:
    runs: Runs, or folders of runs, or folders at any depth above them.
    baseline: A method to compare the others with, client by client.
    columns: Names of measures over clients: see `measures.MEASURES`.
    round: The evaluation to compare: "last", that after a round by its number,
      or "best", each run's own by `criterion`.
    criterion: The measure that "best" goes by.
    honest: Whether to leave out the clients that attack.
    unfinished: Whether runs that are not finished take part.

  Returns:
    One row for each method of each task: task, method, seeds, then for each
    measure NAME its mean over seeds and their standard deviation,
    NAME_std_over_seeds (missing where there is one seed). Accuracies are in
    percent; numbers have the digits of the program's tables. With a baseline,
    the changes from it follow in the same form, over the seeds that both have:
    how many of its suffering clients improve, and by how much, how many others
    degrade, and by how much, and the change of the mean. `attrs["notes"]` has
    sentences about runs that are left out and settings that differ.

  Raises:
    ValueError: If an argument is not valid, or there is nothing to compare.
    RunError: If a folder holds no run, or a damaged one.
  """
  for argument, names in (("columns", columns), ("criterion", [criterion])):
    for name in names:
      if name not in measures.MEASURES:
        raise ArgumentError(
          argument,
          f"unknown; valid: {', '.join(measures.MEASURES)}.",
          value=name,
        )
  found = tables.build(
    finding.collect(runs),
    columns,
    evaluations.Choice(
      round=round, criterion=criterion, honest=honest, unfinished=unfinished
    ),
    baseline,
  )
  frame = formats.frame(found, is_rounded=True)
  frame.attrs["notes"] = [note for table in found for note in table.notes]
  return frame
