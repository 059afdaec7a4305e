"""Runs side by side, as a data frame."""

import os
from collections.abc import Iterable, Sequence

import pandas as pd

from tff_fair.declared import FieldError
from tff_fair.experiments.comparing import columns as table_columns
from tff_fair.experiments.comparing import (
  evaluations,
  formats,
  measures,
  side_by_side,
)
from tff_fair.experiments.comparing.target import Target
from tff_fair.experiments.runs import finding
from tff_fair.experiments.runs.run import Run

COLUMNS = ("mean", "std", "worst_10", "best_10")


_MOST_SHOWN = 10


class Comparison(pd.DataFrame):
  """A data frame that prints ten columns, and how many more there are.

  What is selected or computed from it is a plain data frame.
  """

  @property
  def _constructor(self) -> type[pd.DataFrame]:
    return pd.DataFrame

  def _shown(self) -> pd.DataFrame:
    spread = [c for c in self.columns if c.endswith("_std_over_seeds")]
    known = pd.DataFrame(self).drop(columns=["task", "method", *spread])
    return known.iloc[:, :_MOST_SHOWN]

  def _more(self) -> str:
    number = self.shape[1] - self._shown().shape[1]
    return f"{number} more columns: see .columns"

  def __repr__(self) -> str:
    with pd.option_context("display.max_columns", None):
      return f"{self._shown()!r}\n{self._more()}"

  def _repr_html_(self) -> str | None:
    """Returns it as notebooks show it."""
    with pd.option_context("display.max_columns", None):
      return f"{self._shown()._repr_html_()}<p>{self._more()}</p>"


def compare(
  runs: Iterable[Run | str | os.PathLike[str]] | str | os.PathLike[str],
  baseline: str | None = None,
  columns: Sequence[str] = COLUMNS,
  *,
  round: str | int = evaluations.LAST,
  criterion: str = "mean",
  honest: bool = False,
  unfinished: bool = False,
  last: int | None = None,
  target: float | None = None,
  target_of: str = "mean",
) -> pd.DataFrame:
  """Compares runs: a row for each method, over its seeds.

      compare(runs)
      compare("outputs/first", baseline="fedavg", columns=["mean", "worst_10"])

  Args:
    runs: Runs, or folders of runs, or folders at any depth above them.
    baseline: A method to compare the others with, client by client.
    columns: Names of measures over clients: see `measures.NAMES`. "clients" is
      a column for each client, of up to ten.
    round: The evaluation to compare: "last", that after a round by its number,
      or "best", each run's own by `criterion`.
    criterion: The measure that "best" goes by.
    honest: Whether to leave out the clients that attack.
    unfinished: Whether runs that are not finished take part.
    last: Adds the mean of so many evaluations of each run, up to the one to
      compare and without round 0, as columns NAME_last_K.
    target: Adds what each method costs to reach this value, not scaled (0.8 for
      80 %), as columns: `reached`, the number of its seeds that do, and over
      these `rounds_to`, `bytes_to` (sent and received, of all clients) and
      `steps_to` (local steps), up to the first evaluation that reaches it.
    target_of: The measure that is to reach it.

  Returns:
    One row for each method of each task, by its name, the baseline first: task,
    method, seeds, then for each
    measure NAME its mean over seeds and their standard deviation,
    NAME_std_over_seeds (missing where there is one seed); a client is called
    client_NAME. Accuracies are in percent, errors of regressions in units of
    the label; numbers have the digits of the program's tables. With a baseline,
    the changes from it follow in the same form, over the seeds that both have:
    how many of its suffering clients improve, and by how much, how many others
    degrade, and by how much, and the change of the mean. Then, for each
    measure, the paired difference to the baseline NAME_difference, its interval
    NAME_difference_low and _high, its p-value _p and that after Holm's
    correction _p_holm (see `paired`), which the interval has as well; and the
    wins, ties and losses by client. Interval and p-values are missing where
    nothing varies. `attrs["notes"]` has sentences about runs that are left out,
    settings that differ, and methods with one seed.

  Raises:
    ValueError: If an argument is not valid, or there is nothing to compare.
    RunError: If a folder holds no run, or all runs are damaged; fewer are left
      out, with a note.
  """
  for argument, names, valid in (
    ("columns", columns, table_columns.NAMES),
    ("criterion", [criterion], measures.NAMES),
    ("target_of", [target_of], measures.NAMES),
  ):
    for name in names:
      if name not in valid:
        raise FieldError(
          argument, f"unknown; valid: {', '.join(valid)}.", value=name
        )
  read = side_by_side.tables_to_read(with_target=target is not None)
  whole, left_out = finding.find_whole(runs, read)
  found = side_by_side.build(
    whole,
    columns,
    evaluations.EvaluationChoice(
      round=round,
      criterion=criterion,
      honest=honest,
      unfinished=unfinished,
      last=last,
    ),
    baseline,
    target=None if target is None else Target(target, target_of),
    notes=left_out,
  )
  rows = formats.frame(found, is_rounded=True)
  frame = Comparison(rows.set_index(pd.Index(rows["method"], name=None)))
  frame.attrs["notes"] = [note for table in found for note in table.notes]
  return frame
