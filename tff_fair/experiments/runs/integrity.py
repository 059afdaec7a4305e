"""Checks that the files of a run have not changed since the run wrote them."""

import pathlib
from collections.abc import Iterator, Mapping

from tff_fair import spelling
from tff_fair.experiments.runs import checkpoints, checksums, tape_files
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.files import parsing


def write_checksums(
  folder: RunFolder,
  hasher: checksums.Hasher | None = None,
  staged: RunFolder | None = None,
) -> None:
  """Writes checksums of a run's files.

  At the end of a run, this includes the final files in the folder `staged`.
  """
  found = [*_recorded(folder, below=staged is not None)]
  # Before the end of a run, states have their own files of checksums, and only
  # full blocks of the tape no longer change.
  if staged is None:
    found += tape_files.full_blocks(folder, folder.last_saved_round)
    checksums.write(folder.path, found, hasher)
  else:
    last = _recorded(staged, below=False)
    checksums.write(folder.path, found, hasher, last)


def changes(
  folder: RunFolder, *, verify: bool = False, below: bool = True
) -> Mapping[str, str]:
  """Returns how each changed file of a run differs ("is missing"), by name.

  Digests are compared only with `verify`, or if a size differs. Files in
  subfolders are checked only with both `verify` and `below`.
  """
  try:
    expected = checksums.read(folder.path)
  except FileNotFoundError:
    # Before a run saves its first round, it does not have checksums.
    is_lost = verify and below and folder.is_finished
    return {checksums.FILE: "is missing"} if is_lost else {}
  except (OSError, parsing.ParseError) as error:
    return {checksums.FILE: f"cannot be read ({error})"}
  below = below and verify
  found = dict(_differences(folder, expected, below=below, verify=verify))
  if found and not verify:
    found = dict(_differences(folder, expected, below=False, verify=True))
  return found


def describe_changes(folder: pathlib.Path, found: Mapping[str, str]) -> str:
  """Returns a line that names the changed files of a run."""
  shown = spelling.join_names(
    [f"{name} {how}" for name, how in found.items()], 3
  )
  return f"{folder}: changed since the run wrote it: {shown}."


def _recorded(folder: RunFolder, *, below: bool) -> Iterator[pathlib.Path]:
  """Yields a run's existing files for which checksums are recorded.

  With `below`, this includes the files in subfolders.
  """
  for path in folder.recorded_files:
    if path.is_file():
      yield path
    elif below:
      yield from (file for file in path.rglob("*") if file.is_file())


def _differences(
  folder: RunFolder,
  expected: Mapping[str, Mapping[str, object]],
  *,
  below: bool,
  verify: bool,
) -> Iterator[tuple[str, str]]:
  """Yields the name of each file that differs from `expected`, and how."""
  known = {path.name for path in folder.recorded_files}
  passing: set[pathlib.Path] = set()
  is_finished = folder.is_finished
  if not is_finished:
    # An unfinished run will write its final files again.
    passing = set(folder.final_files)
  for name, checksum in expected.items():
    parts = pathlib.PurePath(name).parts
    file = folder.path / name
    if (
      not parts
      or parts[0] not in known
      or ".." in parts
      or (len(parts) > 1 and not below)
      or file in passing
    ):
      continue
    may_grow = not is_finished and file in folder.round_tables
    try:
      how = checksums.difference(
        file, checksum, verify=verify, may_grow=may_grow
      )
    except (FileNotFoundError, NotADirectoryError):
      how = "is missing"
    except OSError as error:
      how = f"cannot be read ({error.strerror or error})"
    if how is not None:
      yield name, how
  if is_finished:
    for file in _recorded(folder, below=below):
      name = str(file.relative_to(folder.path))
      if name not in expected:
        yield name, "was not there"
  elif below and not folder.is_in_use:
    yield from _damaged_states(folder)


def _damaged_states(folder: RunFolder) -> Iterator[tuple[str, str]]:
  for place in (folder.checkpoints, folder.best_checkpoint):
    for round_num in checkpoints.saved_rounds(place):
      state = checkpoints.path(place, round_num)
      if (damage := checkpoints.find_damage(state)) is not None:
        yield str(state.relative_to(folder.path)), f"({damage})"
