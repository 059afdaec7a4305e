"""Writes and repairs a run's tables, CSV files that grow with each round."""

import collections
import csv
import io
import os
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import checksums
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.tables import ROUND
from tff_fair.experiments.training import event_files
from tff_fair.experiments.training.callbacks import Writer
from tff_fair.experiments.training.round_state import RoundState
from tff_fair.files import atomic


class TableWriter(Writer):
  """Writes the tables of a run; fails if the folder was moved or removed."""

  def __init__(self, folder: RunFolder) -> None:
    self._folder = folder

  def write(self, state: RoundState) -> None:
    """Appends the rows of a round."""
    folder, round_num = self._folder, state.round_num
    if round_num:
      for path, row in (
        (folder.metrics, state.metrics),
        (folder.timing, state.timing),
        (folder.costs, state.costs),
      ):
        folder.check_place()
        append_row(path, round_num, row)
      append_rows(folder.cohorts, round_num, state.clients)
    if state.evaluation is not None:
      folder.check_place()
      append_rows(
        folder.client_evaluations, round_num, state.evaluation.clients
      )
      # Written last, since readers skip the clients' rows of rounds that do not
      # have a row in this table.
      append_row(folder.evaluations, round_num, state.evaluation.summary)


def append_row(path: pathlib.Path, round_num: int, value: object) -> None:
  """Appends a CSV row with the round's number and the leaves of `value`."""
  # The format is that of TFF's CSVFileReleaseManager, which is 20 times slower,
  # except that NaN, such as a mean over no clients, becomes an empty cell.
  row: dict[str, object] = {ROUND: round_num}
  for name, leaf in event_files.leaves(value):
    cell = np.asarray(leaf).tolist()
    row[name] = None if cell != cell else cell  # noqa: PLR0124
  names: list[str] = []
  if path.exists():
    with path.open(newline="", encoding="utf-8") as file:
      names = next(csv.reader(file), [])
  if new := [name for name in row if name not in names]:
    names += new
    _add_columns(path, names)
  with path.open("a", newline="", encoding="utf-8") as file:
    csv.DictWriter(file, names).writerow(row)


def _add_columns(path: pathlib.Path, names: Sequence[str]) -> None:
  """Rewrites a CSV file with the header `names`, which adds empty columns."""
  rows = []
  if path.exists():
    with path.open(newline="", encoding="utf-8") as file:
      rows = list(csv.DictReader(file))
    checksums.forget(path)
  text = io.StringIO(newline="")
  writer = csv.DictWriter(text, names)
  writer.writeheader()
  writer.writerows(rows)
  # Unlike `atomic.replacement`, this does not recreate a removed folder.
  atomic.write(path, text.getvalue())


def append_rows(
  path: pathlib.Path, round_num: int, columns: Mapping[str, np.ndarray]
) -> None:
  """Appends CSV rows with the round's number and the entries of `columns`."""
  names = [ROUND, *columns]
  with path.open("a+", newline="") as file:
    writer = csv.writer(file)
    if file.tell() == 0:
      writer.writerow(names)
    else:
      file.seek(0)
      if (found := next(csv.reader(file))) != names:
        raise RunError(
          f"{path}: has the columns {', '.join(found)}; expected "
          f"{', '.join(names)}. Put the file back as it was."
        )
      file.seek(0, os.SEEK_END)
    cells = (np.asarray(column).tolist() for column in columns.values())
    writer.writerows([round_num, *row] for row in zip(*cells, strict=True))


def count_rows(path: pathlib.Path) -> collections.Counter[int]:
  """Returns a table's number of rows for each round."""
  return collections.Counter(round_num for round_num, _ in _read(path)[1])


def keep_rounds(
  path: pathlib.Path,
  last_round: int,
  is_due: Callable[[int], bool] = lambda _: True,
) -> None:
  """Removes rows of rounds that are after `last_round` or not due.

  Rows that are cut off at the end are removed, too.
  """
  if not path.exists():
    return
  header, rows = _read(path)
  kept = [row for n, row in rows if n <= last_round and is_due(n)]
  if not kept:
    path.unlink()
    return
  # If this program is killed, the next one removes files named like TFF's
  # temporary files.
  rewritten = path.with_name(f"{path.name}_temp0")
  rewritten.write_bytes(b"".join([header, *kept]))
  atomic.sync(rewritten)
  os.replace(rewritten, path)


def _read(path: pathlib.Path) -> tuple[bytes, list[tuple[int, bytes]]]:
  """Returns a table's header, and its complete rows with round numbers."""
  try:
    text = path.read_bytes() if path.exists() else b""
  except OSError as error:
    raise RunError(
      f"{path}: cannot be read: {error.strerror}; nothing was changed. Make it "
      "readable and try again."
    ) from error
  # A power cut may leave zero bytes at the end.
  header, *rows = text.partition(b"\0")[0].splitlines(keepends=True) or [b""]
  if rows and not rows[-1].endswith(b"\n"):
    rows.pop()
  try:
    if rows and header.split(b",")[0].strip() != ROUND.encode():
      raise ValueError("The first column is not the round.")
    return header, [(int(row.split(b",")[0]), row) for row in rows]
  except ValueError as error:
    raise RunError(
      f"{path.parent}: {path.name} has rows without a round, so that the run "
      "cannot resume; put the file back as it was, or start anew in another "
      "folder."
    ) from error
