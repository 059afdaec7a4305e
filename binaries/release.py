"""Where the results of rounds go: tables and TensorBoard, by TFF's managers."""

import asyncio
import csv
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow_federated as tff

from binaries import training_loop
from binaries.command_line import UsageError
from binaries.run_folder import RunFolder

ROUND = "round"  # The first column of every table.
# One to go on from, and the one before, should that be damaged.
_NUM_CHECKPOINTS = 2
_CHECKPOINT_PREFIX = "program_state_"  # As is TFF's own default.


class RowsReleaseManager(tff.program.ReleaseManager):
  """Appends columns to a CSV file, one row per entry, each with its key.

  `tff.program.CSVFileReleaseManager` writes one row per key.
  """

  def __init__(self, path: pathlib.Path) -> None:
    self._path = path

  async def release(self, value: Mapping[str, np.ndarray], key: int) -> None:
    """Appends `value`, columns of equal length, under the round `key`.

    A cell that is `None` is left empty.
    """
    is_new = not self._path.exists()
    with self._path.open("a", newline="") as file:
      writer = csv.writer(file)
      if is_new:
        writer.writerow([ROUND, *value])
      columns = (np.asarray(column).tolist() for column in value.values())
      writer.writerows([key, *row] for row in zip(*columns, strict=True))


def open_releases(folder: RunFolder) -> training_loop.Releases:
  """Opens the tables and the event files of a run."""

  def table(path: pathlib.Path) -> tff.program.ReleaseManager:
    return tff.program.CSVFileReleaseManager(path, key_fieldname=ROUND)

  def table_and_events(
    path: pathlib.Path, events: str
  ) -> tff.program.ReleaseManager:
    return tff.program.GroupingReleaseManager(
      [
        table(path),
        tff.program.TensorBoardReleaseManager(folder.tensorboard / events),
      ]
    )

  return training_loop.Releases(
    metrics=table_and_events(folder.metrics, "train"),
    timing=table(folder.timing),
    costs=table(folder.costs),
    cohorts=RowsReleaseManager(folder.cohorts),
    summary=table_and_events(folder.evaluations, "test"),
    clients=RowsReleaseManager(folder.client_evaluations),
  )


class _Checkpoints(tff.program.FileProgramStateManager):
  """Says in one line that a state is not of the process it is wanted for."""

  async def load(self, version: int, structure: Any) -> Any:
    """Returns the state after a round.

    Raises:
      UsageError: If it is of another structure.
    """
    try:
      return await super().load(version, structure)
    except (TypeError, ValueError) as error:
      raise UsageError(
        f"--output_dir: the state saved after round {version} does not fit "
        "this process: another version of the programs wrote it. Go on with "
        "that version, or start anew in another folder."
      ) from error


def open_checkpoints(folder: RunFolder) -> tff.program.ProgramStateManager:
  """Opens the saved rounds of a run."""
  return _Checkpoints(
    folder.checkpoints, keep_total=_NUM_CHECKPOINTS, keep_first=False
  )


def open_best_checkpoints(
  folder: RunFolder,
) -> tff.program.ProgramStateManager:
  """Opens the states at the best evaluations; the latest is the best."""
  return tff.program.FileProgramStateManager(
    folder.best_checkpoint,
    prefix=_CHECKPOINT_PREFIX,
    keep_total=_NUM_CHECKPOINTS,
    keep_first=False,
  )


def keep_best_checkpoints(folder: RunFolder, last_round: int) -> None:
  """Removes states at evaluations of later rounds, which will come again."""
  manager = open_best_checkpoints(folder)
  for version in asyncio.run(manager.get_versions()) or []:
    if version > last_round:
      shutil.rmtree(best_checkpoint(folder, version))


def best_checkpoint(folder: RunFolder, round_num: int) -> pathlib.Path:
  """Returns where the state of a round is, if it was the best."""
  return folder.best_checkpoint / f"{_CHECKPOINT_PREFIX}{round_num}"


def last_saved_round(folder: RunFolder) -> int:
  """Returns the round from which a run can go on; 0 is its beginning."""
  return max(asyncio.run(open_checkpoints(folder).get_versions()) or [0])


def keep_rounds(path: pathlib.Path, last_round: int) -> None:
  """Removes the rows of later rounds from a table, and one that was cut off.

  A run that was killed may have released more rounds than it saved.

  Args:
    path: A table whose first column is the round; it may not exist.
    last_round: The last round to keep; without any, the file goes.
  """
  if not path.exists():
    return
  header, *rows = path.read_bytes().splitlines(keepends=True) or [b""]
  kept = [
    row
    for row in rows
    if row.endswith(b"\n") and int(row.split(b",")[0]) <= last_round
  ]
  if not kept:
    path.unlink()
    return
  rewritten = path.with_suffix(".rewritten")
  rewritten.write_bytes(b"".join([header, *kept]))
  os.replace(rewritten, path)
