"""Reads and writes the tape of a run: the arrays of rounds, in blocks.

A block is one npz file of ten rounds, or of one round on a tape with updates.
It contains the arrays of `tff_fair.summing.tape.TapedRound`, whose names begin
with the number of the round ("12/gram"), and `model`, the SHA-256 of the run's
model.json. When a round is added, its block is rewritten, so that a resumed run
produces the same bytes.
"""

import hashlib
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from tff_fair.experiments.errors import DamageError, RunError
from tff_fair.experiments.runs import array_files
from tff_fair.experiments.runs.folder import RunFolder

_ROUNDS_IN_BLOCK = 10
_MODEL, _UPDATES = "model", "updates"
_NAME = re.compile(r"rounds_(\d{6,})-(\d{6,})\.npz")

Arrays = Mapping[str, np.ndarray]


class Recorder:
  """Writes the rounds of a run to its tape, in order."""

  def __init__(self, folder: RunFolder) -> None:
    self._folder = folder
    self._block: dict[int, Arrays] = {}

  def write(self, round_num: int, arrays: Arrays) -> None:
    """Adds the arrays of a round to its block."""
    path = _path(self._folder, round_num, has_updates=_UPDATES in arrays)
    first, _ = _round_range(path)
    if not self._block or min(self._block) < first:
      self._block = _read(path, self._folder) if path.exists() else {}
    self._block[round_num] = arrays
    _write(path, self._folder, self._block)


def has_round(folder: RunFolder, round_num: int) -> bool:
  """Returns whether a tape contains a round."""
  return any(
    round_num in _read(path, folder)
    for path in _blocks(folder)
    for first, last in [_round_range(path)]
    if first <= round_num <= last
  )


def full_blocks(folder: RunFolder, last_round: int) -> Iterator[pathlib.Path]:
  """Yields the paths of the blocks that do not grow after `last_round`."""
  for path in _blocks(folder):
    if _round_range(path)[1] <= last_round:
      yield path


def keep_rounds(folder: RunFolder, last_round: int) -> None:
  """Removes the rounds after `last_round`, which the run will repeat."""
  for path in _blocks(folder):
    first, last = _round_range(path)
    if first > last_round:
      path.unlink()
    elif last > last_round:
      found = _read(path, folder)
      rounds_left = {
        n: arrays for n, arrays in found.items() if n <= last_round
      }
      _write(path, folder, rounds_left)


def read(
  folder: RunFolder, last_round: int, say: Callable[[str], object]
) -> Iterator[tuple[int, Arrays | None]]:
  """Yields the number and the arrays of each round, in order.

  For a round that is not on the tape, yields None for the arrays, and calls
  `say`.
  """
  blocks = _blocks(folder)
  if not blocks:
    raise RunError(
      f"{folder.path}: has no tape; train it with --tape (tape=True)."
    )
  expected = 1
  for path in blocks:
    first, last = _round_range(path)
    yield from _missing(folder, expected, min(first - 1, last_round), say)
    expected, last = last + 1, min(last, last_round)
    try:
      found = _read(path, folder)
    except DamageError as error:
      say(f"{error} The rest is read.")
      found = {}
    for round_num in range(first, last + 1):
      yield round_num, found.get(round_num)
  yield from _missing(folder, expected, last_round, say)


def _missing(
  folder: RunFolder, first: int, last: int, say: Callable[[str], object]
) -> Iterator[tuple[int, None]]:
  """Yields rounds `first` to `last` with None for arrays; reports the gap."""
  if first <= last:
    say(
      f"{folder.tape}: has no block with rounds {first} to {last}. The rest is "
      "read."
    )
  for round_num in range(first, last + 1):
    yield round_num, None


def _path(
  folder: RunFolder, round_num: int, *, has_updates: bool
) -> pathlib.Path:
  """Returns the path of the block for a round."""
  size = 1 if has_updates else _ROUNDS_IN_BLOCK
  first = round_num - (round_num - 1) % size
  return folder.tape / f"rounds_{first:06}-{first + size - 1:06}.npz"


def _blocks(folder: RunFolder) -> list[pathlib.Path]:
  """Returns the paths of a tape's blocks in the order of their rounds."""
  found = [p for p in folder.tape.glob("*.npz") if _NAME.fullmatch(p.name)]
  return sorted(found, key=_round_range)


def _round_range(block: pathlib.Path) -> tuple[int, int]:
  """Returns the first and the last round that a block may contain."""
  found = _NAME.fullmatch(block.name)
  assert found is not None
  first, last = map(int, found.groups())
  return first, last


def _write(
  path: pathlib.Path, folder: RunFolder, block: Mapping[int, Arrays]
) -> None:
  arrays = {
    f"{round_num}/{name}": array
    for round_num, of_round in block.items()
    for name, array in of_round.items()
  }
  array_files.write(path, {_MODEL: _model_digest(folder), **arrays})


def _read(path: pathlib.Path, folder: RunFolder) -> dict[int, Arrays]:
  rounds: dict[int, dict[str, np.ndarray]] = {}
  with array_files.read(path) as arrays:
    model = arrays.pop(_MODEL)
    for name, array in arrays.items():
      number, _, field = name.partition("/")
      rounds.setdefault(int(number), {})[field] = array
  if not np.array_equal(model, _model_digest(folder)):
    raise RunError(
      f"{path}: is a tape of another model than {folder.model.name}; put back "
      "the tape of this run."
    )
  return {**rounds}


def _model_digest(folder: RunFolder) -> np.ndarray:
  """Returns the SHA-256 of a run's model.json."""
  try:
    content = folder.model.read_bytes()
  except OSError as error:
    raise RunError(
      f"{folder.model}: cannot be read: {error.strerror or error}."
    ) from error
  return np.array(hashlib.sha256(content).hexdigest())
