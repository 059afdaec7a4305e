"""Reads and checks a CSV table of clients' results that a user audits."""

import dataclasses
import math
import os
import pathlib
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from tff_fair.declared import FieldError
from tff_fair.experiments.spec.scores import ACCURACY, RMSE, Score
from tff_fair.files import csv_cells
from tff_fair.metrics.statistics import RATIOS, SIGNED_STATISTICS

R2 = "r2"  # The column of R², which a table of RMSEs may also have.
CLIENT, COUNT, CORRECT = "client", "num_examples", "correct"
LOSS = dataclasses.replace(
  RMSE,
  name="loss",
  noun="loss",
  plural="losses",
  in_unit="means over examples",
  worst="largest loss",
  extra_scores=(),
)
# A score for losses that may be below zero, such as negative log densities.
_SIGNED_LOSS = dataclasses.replace(
  LOSS,
  lowest=-math.inf,
  statistics={
    **LOSS.statistics,
    **{n: SIGNED_STATISTICS[n] for n in ("std", "variance", *RATIOS)},
  },
)

# The columns of the table that `read` returns, with the titles that each may
# have in a user's file. The last title is the one in a run's clients.csv.
_NAMES = {
  CLIENT: ("client",),
  COUNT: ("n", "num_examples", "num_test_examples"),
  CORRECT: ("correct",),
  ACCURACY.name: ("accuracy", "test_accuracy"),
  LOSS.name: ("loss", "test_loss"),
}
_SCORES = (CORRECT, ACCURACY.name, LOSS.name)
_LARGEST_COUNT = 2**53  # Larger whole numbers are not exact in float64.
_SHOWN = 40  # The most characters of a cell that an error message shows.
_ROUNDING = 0.006  # Allows accuracies to be rounded to two decimals.


# The condition on the numbers of each column, in words and as a function.
_RULES: Mapping[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
  COUNT: (
    "a whole number of 1 or more",
    lambda v: (v >= 1) & (v <= _LARGEST_COUNT) & (v % 1 == 0),
  ),
  CORRECT: (
    "a whole number of 0 or more",
    lambda v: (v >= 0) & (v <= _LARGEST_COUNT) & (v % 1 == 0),
  ),
  ACCURACY.name: (
    "a number in [0, 1] (divide percentages by 100)",
    lambda v: (v >= 0) & (v <= 1),
  ),
  LOSS.name: ("a finite number", np.isfinite),
}


def score_of(clients: pd.DataFrame) -> Score:
  """Returns the kind of score that a table has: accuracy, RMSE or loss."""
  score = next(s for s in (ACCURACY, RMSE, LOSS) if s.name in clients)
  is_signed = score is LOSS and (clients[LOSS.name] < 0).any()
  return _SIGNED_LOSS if is_signed else score


def read(path: str | os.PathLike[str]) -> pd.DataFrame:
  """Reads and checks a CSV file of clients' results, one client per row."""
  path = pathlib.Path(path)
  table = _parse(path)
  columns = {
    ours: found
    for ours, names in _NAMES.items()
    if (found := next((n for n in names if n in table), None)) is not None
  }
  _check_columns(path, table, columns)
  clients = _clients(path, table[columns[CLIENT]])
  results = pd.DataFrame({CLIENT: clients})
  for ours in (COUNT, *_SCORES):
    if ours in columns:
      results[ours] = _numbers(path, table[columns[ours]], clients, ours)
  if CORRECT in results:
    too_many = results[CORRECT] > results[COUNT]
    if too_many.any():
      row = int(too_many.argmax())
      found, count = results[CORRECT][row], results[COUNT][row]
      raise _cell_error(
        path,
        columns[CORRECT],
        row,
        clients,
        f"expected at most {count:.0f}, the number under {columns[COUNT]!r}, "
        f"found {found:.0f}",
      )
    results[CORRECT] = results[CORRECT].astype(np.int64)
    shares = results[CORRECT] / results[COUNT]
    if ACCURACY.name in results:
      differs = (results[ACCURACY.name] - shares).abs() > _ROUNDING
      if differs.any():
        row = int(differs.argmax())
        raise _cell_error(
          path,
          columns[ACCURACY.name],
          row,
          clients,
          f"expected {shares[row]:.4g}, the share that {columns[CORRECT]!r} "
          f"gives, found {results[ACCURACY.name][row]:.4g}; leave one out",
        )
    results[ACCURACY.name] = shares
  results[COUNT] = results[COUNT].astype(np.int64)
  return results


def _parse(path: pathlib.Path) -> pd.DataFrame:
  try:
    if path.exists() and not path.is_file():
      raise _file_error(path, "is not a file; name a CSV file.")
    # Read cells as text, so that messages show them as in the file. Read titles
    # like cells, as pandas would rename the second of two equal titles.
    table = pd.read_csv(path, header=None, dtype=str, keep_default_na=False)
  except FieldError:
    raise
  except OSError as error:
    raise _file_error(path, f"{error.strerror or error}.") from error
  except UnicodeDecodeError as error:
    raise _file_error(path, "is not a text file in UTF-8.") from error
  except (ValueError, OverflowError) as error:
    reason = " ".join(str(error).split())
    raise _file_error(path, f"is not a CSV table: {reason}.") from error
  table.columns = table.iloc[0].str.strip()
  return table.iloc[1:].reset_index(drop=True)


def _check_columns(
  path: pathlib.Path, table: pd.DataFrame, columns: dict[str, str]
) -> None:
  found = ", ".join(map(repr, table.columns[:10])) or "none"
  for ours in (CLIENT, COUNT):
    if ours not in columns:
      raise _file_error(
        path, f"has no column {_NAMES[ours][0]!r}, found {found}."
      )
  if not columns.keys() & set(_SCORES):
    raise _file_error(
      path, f"has no column 'correct', 'accuracy' or 'loss', found {found}."
    )
  for name in columns.values():
    if (table.columns == name).sum() > 1:
      raise _file_error(path, f"has two columns {name!r}; remove one.")
  if table.empty:
    raise _file_error(path, "has no rows; expected one for each client.")


def _clients(path: pathlib.Path, column: pd.Series) -> pd.Series:
  names = column.map(csv_cells.unquote)
  is_empty = names.str.strip() == ""
  if is_empty.any():
    row = int(is_empty.argmax())
    raise _file_error(path, f"column {CLIENT!r}, row {row + 1}: has no name.")
  is_second = names.duplicated()
  if is_second.any():
    row = int(is_second.argmax())
    first = int((names == names[row]).argmax())
    raise _cell_error(
      path,
      CLIENT,
      row,
      names,
      f"is in row {first + 1} already; expected each client once",
    )
  return names


def _numbers(
  path: pathlib.Path, column: pd.Series, clients: pd.Series, ours: str
) -> np.ndarray:
  values = pd.to_numeric(column, errors="coerce").to_numpy(np.float64)
  expected, fits = _RULES[ours]
  with np.errstate(invalid="ignore"):
    wrong = ~(fits(values) & ~np.isnan(values))
  if wrong.any():
    row = int(wrong.argmax())
    cell = column[row].strip()
    shown = repr(cell[:_SHOWN]) if cell else "an empty cell"
    raise _cell_error(
      path,
      str(column.name),
      row,
      clients,
      f"expected {expected}, found {shown}",
    )
  return values


def _cell_error(
  path: pathlib.Path, column: str, row: int, clients: pd.Series, problem: str
) -> FieldError:
  client = clients[row][:_SHOWN]
  return _file_error(
    path, f"column {column!r}, row {row + 1} (client {client!r}): {problem}."
  )


def _file_error(path: pathlib.Path, problem: str) -> FieldError:
  return FieldError("results", problem, value=str(path))
