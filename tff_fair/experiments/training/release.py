"""Where the results of rounds go: tables, TensorBoard and saved states."""

import collections
import contextlib
import csv
import logging
import math
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import checkpoints, checksums, tape_files
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.tables import ROUND
from tff_fair.experiments.training import event_files, loop, plots, rounds
from tff_fair.files import atomic

# The tables of a run: CSV files that grow by the rows of each round.
#
# A round of small clients takes some 40 ms. TFF's `CSVFileReleaseManager` takes
# 2 to 3 ms of the processor for a row, one of these takes 0.1 ms.


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
    for name, leaf in event_files.leaves(value):
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
      checksums.forget(self._path)
    with (
      atomic.replacement(self._path, overwrite=True) as place,
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


# One to go on from, and the one before, should that be damaged.
_NUM_CHECKPOINTS = 2


class _PlotsAhead(tff.program.ReleaseManager):
  """Gets ready to draw with the first evaluation, that before training.

  The loop releases while it computes the next round, which mostly waits for the
  worker; at the end of the run, nothing would hide the time.
  """

  async def release(self, value: object, key: int) -> None:
    """Imports what drawing needs, once."""
    del value, key
    plots.prepare()


class _TapeReleaseManager(tff.program.ReleaseManager):
  """Writes the first rounds of a run on its tape."""

  def __init__(self, folder: RunFolder, num_rounds: float) -> None:
    """Takes the folder of the run, and how many rounds the tape keeps."""
    self._recorder = tape_files.Recorder(folder)
    self._num_rounds = num_rounds

  async def release(self, value: Mapping[str, np.ndarray], key: int) -> None:
    """Adds arrays by name, under the round `key`, if it is one of those."""
    if key <= self._num_rounds:
      self._recorder.write(key, value)


class _InPlace(tff.program.ReleaseManager):
  """Releases as long as the folder of the run is where it was."""

  def __init__(
    self, folder: RunFolder, manager: tff.program.ReleaseManager
  ) -> None:
    """Takes the folder, and the manager that writes into it."""
    self._folder = folder
    self._manager = manager

  async def release(self, value: object, key: int) -> None:
    """Releases a value.

    Raises:
      RunError: If the folder was renamed or removed.
    """
    self._folder.check_place()
    await self._manager.release(value, key)


def open_releases(
  folder: RunFolder,
  also: Sequence[tff.program.ReleaseManager] = (),
  *,
  tape_rounds: int | None = None,
) -> loop.Releases:
  """Opens the tables and the event files of a run.

  Args:
    folder: The folder of the run.
    also: Take the summaries of evaluations as well.
    tape_rounds: How many rounds a tape keeps; by default all.
  """

  def table_and_events(
    path: pathlib.Path, events: str
  ) -> tff.program.ReleaseManager:
    return tff.program.GroupingReleaseManager(
      [
        RowReleaseManager(path),
        event_files.NumbersReleaseManager(folder.tensorboard / events),
      ]
    )

  releases = loop.Releases(
    metrics=table_and_events(folder.metrics, event_files.TRAIN),
    timing=RowReleaseManager(folder.timing),
    costs=RowReleaseManager(folder.costs),
    cohorts=RowsReleaseManager(folder.cohorts),
    summary=tff.program.GroupingReleaseManager(
      [table_and_events(folder.evaluations, "test"), *also, _PlotsAhead()]
    ),
    clients=tff.program.GroupingReleaseManager(
      [
        RowsReleaseManager(folder.client_evaluations),
        event_files.HistogramReleaseManager(folder.tensorboard / "clients"),
      ]
    ),
    tape=_TapeReleaseManager(folder, tape_rounds or math.inf),
  )
  return loop.Releases(*(_InPlace(folder, manager) for manager in releases))


class Checkpoints(tff.program.FileProgramStateManager):
  """Keeps the last states of a folder of states; they outlast a power cut.

  A state is there with its checksums, or not at all.
  """

  def __init__(
    self,
    path: pathlib.Path,
    tables: Sequence[pathlib.Path] = (),
    check: Callable[[], None] = lambda: None,
    record: Callable[[], None] = lambda: None,
  ) -> None:
    """Takes where states go, and the tables with the rounds before them.

    Args:
      path: The folder of states.
      tables: The tables.
      check: Called before each state; raises if none can be saved.
      record: Called after each state; notes what the tables are then.
    """
    super().__init__(path, prefix=checkpoints.PREFIX)
    self._path = path
    self._tables = tables
    self._check = check
    self._record = record

  async def save(self, program_state: rounds.State, version: int) -> None:
    """Saves a state after the rows of its rounds: a state implies its rows."""
    self._check()
    for table in self._tables:
      if table.exists():
        atomic.sync(table)
    state = checkpoints.path(self._path, version)
    with atomic.moved_when_whole(state, self._check) as staged:
      here = tff.program.FileProgramStateManager(
        staged.parent, prefix=checkpoints.PREFIX
      )
      with _without_notes():
        await here.save(program_state, version)
      checkpoints.write_checksums(staged)
      # Before the new state is there: a kill leaves none too many.
      for old in checkpoints.rounds(self._path)[: 1 - _NUM_CHECKPOINTS]:
        atomic.remove_folder(checkpoints.path(self._path, old))
    self._record()

  async def load(self, version: int, structure: rounds.State) -> rounds.State:
    """Returns the state after a round.

    Raises:
      RunError: If it is of another structure.
    """
    try:
      return await super().load(version, structure)
    except (TypeError, ValueError) as error:
      raise RunError(
        f"{self._path.parent}: the state saved after round {version} does not "
        "fit this process: another version of the programs wrote it. Go on "
        "with that version, or start anew in another folder."
      ) from error


@contextlib.contextmanager
def _without_notes() -> Iterator[None]:
  """Keeps TensorFlow from telling a notebook about every file it writes."""
  logger = tf.get_logger()
  level = logger.level
  logger.setLevel(max(level, logging.WARNING))
  try:
    yield
  finally:
    logger.setLevel(level)


def count_rows(path: pathlib.Path) -> collections.Counter[int]:
  """Returns how many rows a table has of each round.

  Args:
    path: A table whose first column is the round; it may not exist.

  Raises:
    RunError: If it is not as a run left it.
  """
  return collections.Counter(round_num for round_num, _ in _read(path)[1])


def keep_rounds(
  path: pathlib.Path,
  last_round: int,
  is_due: Callable[[int], bool] = lambda _: True,
) -> None:
  """Removes the rows of later rounds from a table, and those that were cut off.

  A run that was killed may have released more rounds than it saved.

  Args:
    path: A table whose first column is the round; it may not exist.
    last_round: The last round to keep; without any, as after -1, the file goes.
    is_due: Whether the table has a round at all.

  Raises:
    RunError: If it is not as a run left it.
  """
  if not path.exists():
    return
  header, rows = _read(path)
  kept = [row for n, row in rows if n <= last_round and is_due(n)]
  if not kept:
    path.unlink()
    return
  # Under a name as TFF's, that is removed should this be killed.
  rewritten = path.with_name(f"{path.name}_temp0")
  rewritten.write_bytes(b"".join([header, *kept]))
  atomic.sync(rewritten)
  os.replace(rewritten, path)


def _read(path: pathlib.Path) -> tuple[bytes, list[tuple[int, bytes]]]:
  """Returns a table's header and its rows up to where it was cut off.

  A power cut may leave the file shorter than it was, or zeros in it.
  """
  try:
    text = path.read_bytes() if path.exists() else b""
  except OSError as error:
    raise RunError(
      f"{path}: cannot be read: {error.strerror}; nothing was changed. Make it "
      "readable and try again."
    ) from error
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
      "cannot go on; put the file back as it was, or start anew in another "
      "folder."
    ) from error
