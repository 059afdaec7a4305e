"""The tables of a run: CSV files that grow by the rows of each round.

A round of small clients takes some 40 ms. TFF's `CSVFileReleaseManager` takes 2
to 3 ms of the processor for a row, one of these takes 0.1 ms.
"""

import csv
import os
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow_federated as tff

from tasks.formats import files
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.training import naming

ROUND = "round"  # The first column of every table.


class RowReleaseManager(tff.program.ReleaseManager):
  """Appends a structure to a CSV file as one row, with its key.

  The file is byte for byte that of `tff.program.CSVFileReleaseManager`, but
  that NaN, as of a mean over no client, is an empty cell. The rows of later
  keys must have been removed, by `release.keep_rounds`.
  """

  def __init__(self, path: pathlib.Path) -> None:
    """Takes the file, which may not exist yet."""
    self._path = path

  async def release(self, value: object, key: int) -> None:
    """Appends the leaves of `value`, materialized, under the round `key`.

    A name that the file does not have yet becomes its last column, which is
    empty in earlier rows.
    """
    row: dict[str, object] = {ROUND: key}
    for name, leaf in naming.leaves(value):
      cell = np.asarray(leaf).tolist()
      row[name] = None if cell != cell else cell  # noqa: PLR0124
    names = self._names()
    new = [name for name in row if name not in names]
    if new:
      names += new
      self._widen(names)
    with self._path.open("a", newline="", encoding="utf-8") as file:
      csv.DictWriter(file, names).writerow(row)

  def _names(self) -> list[str]:
    """Returns the names of the columns that the file has."""
    if not self._path.exists():
      return []
    with self._path.open(newline="", encoding="utf-8") as file:
      return next(csv.reader(file), [])

  def _widen(self, names: Sequence[str]) -> None:
    """Gives the file these columns, of which it has the first ones."""
    rows = []
    if self._path.exists():
      with self._path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    with (
      files.replacement(self._path, overwrite=True) as place,
      place.open("w", newline="", encoding="utf-8") as file,
    ):
      writer = csv.DictWriter(file, names)
      writer.writeheader()
      writer.writerows(rows)


class RowsReleaseManager(tff.program.ReleaseManager):
  """Appends columns to a CSV file, one row per entry, each with its key."""

  def __init__(self, path: pathlib.Path) -> None:
    """Takes the file, which may not exist yet."""
    self._path = path

  async def release(self, value: Mapping[str, np.ndarray], key: int) -> None:
    """Appends `value`, columns of equal length, under the round `key`.

    A cell that is `None` is left empty.

    Raises:
      RunError: If the file has other columns.
    """
    names = [ROUND, *value]
    with self._path.open("a+", newline="") as file:
      writer = csv.writer(file)
      if file.tell() == 0:
        writer.writerow(names)
      else:
        file.seek(0)
        if (found := next(csv.reader(file))) != names:
          raise RunError(
            f"{self._path}: has the columns {', '.join(found)}; expected "
            f"{', '.join(names)}. Put the file back as it was."
          )
        file.seek(0, os.SEEK_END)
      columns = (np.asarray(column).tolist() for column in value.values())
      writer.writerows([key, *row] for row in zip(*columns, strict=True))
