"""Finds and reads runs in folders, without TensorFlow."""

import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tff_fair.experiments import progress
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import configuration, integrity, summaries
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import Run
from tff_fair.files import parsing

# The file in a folder of runs that holds the names of their methods.
NAMES_FILE = "sweep.json"
Place = str | os.PathLike[str]


# A function that takes the error about a damaged run.
OnDamage = Callable[[RunError], object]

# The attributes of `Run` that read tables of results.
TABLES = (
  *("evaluations", "client_evaluations", "rounds"),
  *("costs", "cohorts", "labels", "clients"),
)


class FoundRuns(NamedTuple):
  """Runs, and sentences about runs that are damaged or have changed."""

  runs: list[Run]
  left_out: list[str]
  changed: list[str]

  @property
  def notes(self) -> list[str]:
    """The sentences about damaged and changed runs."""
    return [*self.left_out, *self.changed]


def find(
  runs: Run | Place | Iterable[Run | Place], on_damage: OnDamage | None = None
) -> list[Run]:
  """Returns the given `Run`s and the runs in and below folders, each once.

  Runs of a sweep are in the sweep's order, others are sorted by name.
  `on_damage` takes the error about a damaged run; by default, it is raised.
  """
  if isinstance(runs, Run | str | os.PathLike):
    runs = [runs]
  found: dict[pathlib.Path, Run] = {}
  for item in runs:
    for run in (
      [item] if isinstance(item, Run) else _find_below(item, on_damage)
    ):
      found.setdefault(run.path.resolve(), run)
  return list(found.values())


def _find_below(place: Place, on_damage: OnDamage | None) -> Iterator[Run]:
  """Yields the runs in a folder and below it, in the order of `find`."""
  if place == "":  # For example, a script's variable that is not set.
    raise RunError(
      "The name of a folder of runs is empty; . is the working directory."
    )
  path = pathlib.Path(place)
  _check_folder(path)
  folders = list(_folders(path))
  if not folders:
    raise RunError(
      f"{path}: holds no run; expected a folder with config.json, or one above "
      "such folders."
    )
  for folder in folders:
    try:
      yield read_run(folder)
    except RunError as error:
      if on_damage is None:
        raise
      on_damage(error)


def open_only_run(path: Place) -> Run:
  """Returns the only run in or below a folder; reports its changed files."""
  run = find_only_run(path)
  say_changes([run])
  return run


def find_only_run(path: Place) -> Run:
  """Returns the only run in a folder, or in the folders below it."""
  found = find(path)
  if len(found) > 1:
    raise RunError(
      f"{path}: holds {len(found)} runs; name one of them, as {found[0].path}."
    )
  return found[0]


def find_intact(
  runs: Run | Place | Iterable[Run | Place],
  tables: Iterable[str] = TABLES,
  *,
  verify: bool = False,
) -> FoundRuns:
  """Returns runs whose `tables` can be read, with notes on damage and changes.

  Raises `RunError` if all runs are damaged.
  """
  damage: list[RunError] = []
  whole = []
  for run in find(runs, damage.append):
    try:
      for name in tables:
        getattr(run, name)
      whole.append(run)
    except RunError as error:
      damage.append(error)
  if damage and not whole:
    raise damage[0]
  return FoundRuns(
    whole,
    [f"Left out, because it is damaged: {error}" for error in damage],
    changes(whole, verify=verify),
  )


def changes(
  runs: Iterable[Run], *, verify: bool = False, below: bool = True
) -> list[str]:
  """Returns a sentence for each changed run; see `integrity.changes`."""
  sentences = []
  for run in runs:
    folder = RunFolder(run.path)
    if found := integrity.changes(folder, verify=verify, below=below):
      sentences.append(integrity.describe_changes(run.path, found))
  return sentences


def say_changes(
  runs: Iterable[Run], *, verify: bool = False, below: bool = True
) -> None:
  """Writes a line to stderr for each run whose files have changed."""
  for line in changes(runs, verify=verify, below=below):
    progress.say(line)


def open_runs(folder: Place, *, verify: bool = False) -> list[Run]:
  """Reads the runs in a folder and below it, finished or not.

  Args:
    folder: The folder of a run, or one at any level above folders of runs.
    verify: As for `open_run`.

  Returns:
    The runs, without their tables. Runs of a sweep are in the sweep's order,
    others are sorted by name (numbers in names by value).

  Raises:
    RunError: If the folder is missing, holds no run, or holds a damaged one.
  """
  runs = find(folder)
  say_changes(runs, verify=verify)
  return runs


def open_run(path: Place, *, verify: bool = False) -> Run:
  """Reads the run in a folder, without its tables.

  If files of the run have changed since the run wrote them, a line on stderr
  names these files.

  Args:
    path: The folder.
    verify: Whether to compare all files with their checksums. Otherwise, only
      the sizes of tables and settings are compared.

  Raises:
    RunError: If the folder holds no run, or the run is damaged.
  """
  run = read_run(path)
  say_changes([run], verify=verify)
  return run


def read_run(path: Place) -> Run:
  """Reads the run in a folder without reporting changes."""
  folder = RunFolder(pathlib.Path(path))
  _check_folder(folder.path)
  if not os.path.lexists(folder.config):
    first = next(_folders(folder.path), None)
    raise RunError(
      f"{folder.path}: is not the folder of a run: it has no config.json."
      if first is None
      else f"{folder.path}: is a folder of runs; name one of them, as {first}, "
      "or read all with open_runs."
    )
  config = read_json_object(folder.config)
  if problem := configuration.problem(config):
    raise RunError(f"{folder.config}: is not of a run: {problem}.")
  summary = None
  if folder.is_finished:
    summary = parsing.null_to_nan(read_json_object(folder.summary))
    if problem := summaries.problem(summary):
      raise RunError(f"{folder.summary}: is not of a run: {problem}.")
  # Do not resolve links: a sweep records the method under the link's own name.
  place = pathlib.Path(os.path.abspath(path))
  names = read_names(place.parent)
  name = names.get(place.name, config[configuration.RESOLVED]["algorithm"])
  return Run(folder.path, config, summary, name)


def read_names(folder: pathlib.Path) -> dict[str, str]:
  """Returns the methods' names in a sweep, by the name of each run's folder."""
  path = folder / NAMES_FILE
  if not path.exists():
    return {}
  names = read_json_object(path).get("names")
  if not isinstance(names, dict):
    raise RunError(f"{path}: is not of a sweep: it has no names.")
  # In tables, a name must fit in one line.
  return {key: " ".join(str(name).split()) for key, name in names.items()}


def natural_sort_key(text: str) -> list[tuple[bool, float, str]]:
  """Returns a sort key by which "run2" comes before "run10"."""
  parts = re.split(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", text)
  return [
    (bool(place % 2), float(part) if place % 2 else 0.0, part)
    for place, part in enumerate(parts)
  ]


def _folders(path: pathlib.Path) -> Iterator[pathlib.Path]:
  for name, folders, files in os.walk(path):
    folder = pathlib.Path(name)
    # At the very beginning of a run, its config.json is empty.
    if "config.json" in files and not _is_empty(folder / "config.json"):
      folders.clear()
      yield folder
    # Visit the runs of a sweep in the sweep's order.
    place = {name: number for number, name in enumerate(read_names(folder))}
    folders.sort(key=lambda n: (place.get(n, len(place)), natural_sort_key(n)))


def _check_folder(path: pathlib.Path) -> None:
  try:
    if path.is_dir():
      return
    problem = "is not a folder" if path.exists() else "there is no such folder"
  except (OSError, ValueError) as error:
    reason = error.strerror if isinstance(error, OSError) else error
    raise RunError(f"{path}: cannot be read: {reason}.") from error
  raise RunError(f"{path}: {problem}.")


def _is_empty(path: pathlib.Path) -> bool:
  try:
    return not path.stat().st_size
  except OSError:
    return False  # `read_run` then reports the error.


def read_json_object(path: pathlib.Path) -> dict[str, Any]:
  """Returns the JSON object in a file."""
  try:
    if not path.is_file():  # Reading a pipe, for example, may block.
      raise RunError(f"{path}: is not a file; restore it, or move it away.")
    content = parsing.parse_json(path.read_text("utf-8"))
  except RunError:
    raise
  except (OSError, ValueError) as error:
    raise RunError(
      f"{path}: cannot be read: {error}; restore it, or move it away."
    ) from error
  if not isinstance(content, dict):
    raise RunError(
      f"{path}: expected a JSON object; restore it, or move it away."
    )
  return content
