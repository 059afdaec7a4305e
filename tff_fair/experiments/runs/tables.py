"""Reads the tables of runs, and checks their contents."""

from __future__ import annotations

import collections
import csv
import io
import pathlib
import typing
from typing import NamedTuple

import numpy as np

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.spec.settings import bounds
from tff_fair.files import csv_cells

if typing.TYPE_CHECKING:
  import pandas as pd

ROUND, CLIENT = "round", "client_id"
NAME = "client"  # The column with clients' names, which may be any string.
_TEXTS = (NAME, "rule")
# Columns of True or False: whether a client attacks, and whether it is left out
# of training.
ATTACKER, UNSEEN = "attacker", "unseen"
_FLAGS = (ATTACKER, UNSEEN, "harmed")
HONEST = "honest/"  # Prefix of statistics of the clients that do not attack.
# Prefix of columns on validation data; clients without such data have empty
# cells.
VALIDATION = "validation_"
JOIN_ROUND = "join_round"  # The first round in which a client may take part.
_LARGEST_AMOUNT = 1e30  # Sums of such numbers stay finite.
_RANGE_SLACK = 1e-6  # Allows for the rounding of accuracies to float32.
_SHOWN = 40  # The most letters of a wrong cell that a message shows.


def attackers(clients: pd.DataFrame | None) -> set[int]:
  """Returns the ids of the attacking clients in a run's table of clients."""
  if clients is None or ATTACKER not in clients:
    return set()
  return set(clients[CLIENT][clients[ATTACKER]])


class Kind(NamedTuple):
  """A kind of table in a run's folder, and its columns."""

  name: str
  keys: tuple[str, ...]  # Columns of whole numbers that identify a row, if any.
  full: tuple[str, ...] = ()  # Required columns with a number in each row.
  required: tuple[str, ...] = ()  # Required columns whose cells may be empty.
  is_numeric: bool = True  # Whether all columns except `_TEXTS` are numbers.
  has_amounts: bool = False  # Whether all numbers are finite, and 0 or more.

  @property
  def columns(self) -> tuple[str, ...]:
    """All columns that the table must have."""
    return (*self.keys, *self.full, *self.required)


def evaluations(score: Score) -> Kind:
  """Returns the `Kind` of evaluations.csv in a run with this score."""
  return Kind("evaluations.csv", (ROUND,), (f"{score.name}/mean",))


def client_evaluations(score: Score) -> Kind:
  """Returns the `Kind` of client_evaluations.csv in a run with this score."""
  full, columns = ["num_examples"], ["loss", *score.extra_scores]
  # Clients without the examples that a score needs have empty cells.
  (columns if score.needs else full).append(score.name)
  return Kind(
    "client_evaluations.csv", (ROUND, CLIENT), tuple(full), tuple(columns)
  )


# Methods may report values of any type, and the column `excluded` holds text.
METRICS = Kind("metrics.csv", (ROUND,), is_numeric=False)
COHORTS = Kind(
  "cohorts.csv",
  (ROUND, CLIENT),
  required=("coefficient", "loss", "excluded"),
  is_numeric=False,
)
TIMING = Kind("timing.csv", (ROUND,), has_amounts=True)
COSTS = Kind("costs.csv", (ROUND,), has_amounts=True)
LABELS = Kind("labels.csv", (CLIENT,), has_amounts=True)
CLIENTS = Kind("clients.csv", (CLIENT,))
# It has a row for each rule, round and client, but no `keys`, which must be
# whole numbers.
REPLAY = Kind(
  "replay.csv",
  (),
  full=(ROUND, CLIENT, "coefficient", "slope"),
  required=("rule", "cosine", "harmed", "conflicts", "loss_change", "angle"),
)


def read(
  folder: pathlib.Path, kind: Kind, *, is_finished: bool
) -> pd.DataFrame | None:
  """Reads a table of a run; None if it is missing, or still empty."""
  path = folder / kind.name
  try:
    if not path.exists():
      return None
    if not path.is_file():
      raise RunError(f"{path}: is not a file; expected a table.")
    content = path.read_bytes()
  except OSError as error:
    raise RunError(
      f"{path}: cannot be read: {error.strerror or error}."
    ) from error
  if not is_finished:
    # A power cut may leave zero bytes at the end.
    content = content.partition(b"\0")[0]
    content = content[: content.rfind(b"\n") + 1]
    if not content:
      return None
  table = _parse(path, content)
  if not content.endswith((b"\n", b"\r")):
    raise RunError(
      f"{path}: is cut off in row {len(table)}, which has no end of line. Put "
      "the file back as it was."
    )
  for column in kind.columns:
    if column not in table:
      raise RunError(f"{path}: has no column {column!r}.")
  for column in kind.keys:
    table[column] = _whole_numbers(path, table[column])
  _check_unique(path, table, kind.keys)
  for name in _FLAGS:
    if name in table and table[name].dtype != bool:
      raise RunError(
        f"{path}: has other values than True and False under {name!r}."
      )
  _check_numbers(path, table, kind)
  if kind.has_amounts:
    _check_amounts(path, table)
  return table


def read_required(folder: pathlib.Path, kind: Kind) -> pd.DataFrame:
  """Reads a table of a finished run; it must have at least one row."""
  table = read(folder, kind, is_finished=True)
  if table is None:
    raise RunError(f"{folder / kind.name}: is missing in a finished run.")
  if table.empty:
    raise RunError(f"{folder / kind.name}: has no rows in a finished run.")
  return table


def check_results(
  path: pathlib.Path, table: pd.DataFrame, score: Score
) -> None:
  """Checks that clients' scores and numbers of examples are in range."""
  of_scores = (score.lowest, score.highest, _RANGE_SLACK)
  of_counts = (1, _LARGEST_AMOUNT, 0)
  for column, (low, high, slack) in {
    score.name: of_scores,
    f"test_{score.name}": of_scores,
    "num_examples": of_counts,
    "num_test_examples": of_counts,
  }.items():
    if column in table:
      cells = table[column]
      fits = cells.isna() | cells.between(low - slack, high + slack)
      _check_cells(path, cells, fits, "number", f" in [{low:g}, {high:g}]")


def drop_unseen(table: pd.DataFrame) -> pd.DataFrame:
  """Returns the rows of the clients that may take part in training."""
  return table[~table[UNSEEN]] if UNSEEN in table else table


def has_validation(table: pd.DataFrame) -> bool:
  """Returns whether a table has results on clients' validation data."""
  return f"{VALIDATION}num_examples" in table


def validation_rows(table: pd.DataFrame) -> pd.DataFrame:
  """Returns the validation results, in columns named like test results."""
  columns = [name for name in table if name.startswith(VALIDATION)]
  found = table[table[f"{VALIDATION}num_examples"].notna()]
  return found.assign(
    **{n.removeprefix(VALIDATION): found[n].astype(float) for n in columns}
  ).drop(columns=columns)


def _parse(path: pathlib.Path, content: bytes) -> pd.DataFrame:
  if (place := content.find(b"\0")) >= 0:
    row = content[:place].count(b"\n")
    raise RunError(f"{path}: is not a table: row {row} holds zero bytes.")
  _check_titles(path, content)
  import pandas as pd  # noqa: PLC0415  As slow as all other imports together.

  try:
    table = pd.read_csv(
      io.BytesIO(content),
      float_precision="round_trip",
      low_memory=False,  # So all values of a column have the same type.
      # Client names stay strings, even "007" or "NA".
      converters={NAME: csv_cells.unquote},
    )
  except (ValueError, OverflowError) as error:
    raise RunError(f"{path}: is not a table: {str(error).strip()}.") from error
  if not isinstance(table.index, pd.RangeIndex):
    # Pandas uses a column without a title as row names.
    raise RunError(
      f"{path}: is not a table: its rows have more cells than titles."
    )
  return table


def _check_titles(path: pathlib.Path, content: bytes) -> None:
  """Checks that titles differ; pandas renames equal ones in quadratic time."""
  line = content.partition(b"\n")[0].decode(errors="replace")
  try:
    titles = next(csv.reader([line]), [])
  except csv.Error as error:
    raise RunError(f"{path}: is not a table: {error}.") from error
  for title, number in collections.Counter(titles).items():
    if number > 1:
      raise RunError(f"{path}: has two columns {_cell(title)!r}.")


def _whole_numbers(path: pathlib.Path, cells: pd.Series) -> pd.Series:
  """Returns keys as int64; raises `RunError` unless they are whole numbers."""
  import pandas as pd  # noqa: PLC0415

  values = pd.to_numeric(cells, errors="coerce").astype(np.float64)
  fits = values.between(0, bounds.LARGEST_INT) & (values % 1 == 0)
  _check_cells(
    path,
    cells,
    fits,
    "number",
    f" that a {cells.name.removesuffix('_id')} can have",
  )
  return values.astype(np.int64)


def _check_cells(
  path: pathlib.Path,
  cells: pd.Series,
  fits: pd.Series[bool],
  what: str,
  which: str = "",
) -> None:
  """Raises a `RunError` about a column's first cell that does not fit, if any.

  In the message, `what` names the expected content, and `which` restricts it.
  """
  if not fits.all():
    row = int(fits.argmin())
    raise RunError(
      f"{path}: row {row + 1} has no {what} under {cells.name!r}{which}: "
      f"{_cell(cells.iloc[row])}."
    )


def _check_unique(
  path: pathlib.Path, table: pd.DataFrame, keys: tuple[str, ...]
) -> None:
  if keys and (repeated := table.duplicated(list(keys))).any():
    row = int(repeated.argmax())
    found = ", ".join(f"{key} {table[key].iloc[row]}" for key in keys)
    raise RunError(f"{path}: row {row + 1} is a second one of {found}.")


def _check_numbers(path: pathlib.Path, table: pd.DataFrame, kind: Kind) -> None:
  """Parses numbers; only columns outside `kind.full` may have empty cells."""
  import pandas as pd  # noqa: PLC0415

  for column in table.columns if kind.is_numeric else kind.full:
    cells, is_full = table[column], column in kind.full
    is_number = cells.dtype.kind in "iuf"  # Pandas has read only numbers.
    if column in _TEXTS or (is_number and not (is_full and cells.hasnans)):
      continue
    values = pd.to_numeric(cells, errors="coerce")
    fits = values.notna() if is_full else values.notna() | cells.isna()
    _check_cells(path, cells, fits, "number")
    table[column] = values


def _check_amounts(path: pathlib.Path, table: pd.DataFrame) -> None:
  """Checks that numbers are finite, and 0 or more; cells may be empty."""
  for column in table.columns:
    values = table[column].astype(np.float64)
    fits = values.isna() | values.between(0, _LARGEST_AMOUNT)
    _check_cells(path, table[column], fits, "amount")


def _cell(value: object) -> str:
  text = str(value)
  return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
