"""Runs as others see them: found by their folders, and read.

Needs no TensorFlow, so that what reads runs starts at once. Tables are read
when they are asked for; of a run that is not finished, they hold what is there.
"""

import dataclasses
import functools
import io
import json
import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from binaries import command_line, train
from tff_fair.experiments.errors import RunError as UsageError
from tff_fair.experiments.runs.folder import FREE_FLAGS, RunFolder

ROUND = "round"  # The first column of the tables of rounds.
HPARAM, TASK_OPTION = "hparam.", "task_option."  # Before the names of settings.
# Says in a folder what the methods of the runs below it are called.
NAMES_FILE = "sweep.json"

SEED = "seed"
_RANGE_SLACK = 1e-6  # Accuracies are ratios in float32.
# What decides nothing, and what a setting holds under another name.
_NO_SETTINGS = (*FREE_FLAGS, "measure_improvement", "task_option", SEED)


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
  """A run in its folder, finished or not.

  Attributes:
    path: The folder.
    config: All that decides the results: groups of values by name.
    summary: The results at the end; None as long as the run is not finished.
    name: What the method is called: as a sweep names it, or the algorithm.
  """

  path: pathlib.Path
  config: Mapping[str, Mapping[str, Any]]
  summary: Mapping[str, Any] | None
  name: str

  @property
  def is_finished(self) -> bool:
    """Whether the run has come to its end."""
    return self.summary is not None

  @property
  def algorithm(self) -> str:
    """Name of the method."""
    return str(self.config["flags"]["algorithm"])

  @property
  def task(self) -> str:
    """Name of the task."""
    return str(self.config["flags"]["task"])

  @property
  def seed(self) -> int:
    """Seed of everything random."""
    return int(self.config["flags"][SEED])

  @functools.cached_property
  def flags(self) -> Mapping[str, Any]:
    """All flags; those that the program did not have yet, by their defaults."""
    defaults = command_line.flag_defaults(train.GROUPS)
    return {**defaults, **self.config["flags"]}

  @functools.cached_property
  def task_options(self) -> Mapping[str, str]:
    """The options of the task: how its data is cut, and its model."""
    options = (text.partition("=") for text in self.flags["task_option"])
    return {name: value for name, _, value in options}

  @functools.cached_property
  def settings(self) -> Mapping[str, Any]:
    """All that decides the results but the seed.

    Flags under their names, hyperparameters as "hparam.NAME", options of the
    task as "task_option.NAME". What was not given and has no value is left out.
    """
    flags = self.flags
    return {
      **{
        name: value
        for name, value in flags.items()
        if name not in _NO_SETTINGS and value not in (None, False, [])
      },
      **{f"{TASK_OPTION}{n}": value for n, value in self.task_options.items()},
      **{
        f"{HPARAM}{name}": value
        for name, value in self.config.get("hparams", {}).items()
        if value is not None
      },
    }

  @functools.cached_property
  def evaluations(self) -> pd.DataFrame:
    """One row per evaluation: round, accuracy/mean, ..., loss/mean, ..."""
    return self._rounds("evaluations.csv", "accuracy/mean")

  @functools.cached_property
  def client_evaluations(self) -> pd.DataFrame:
    """One row per evaluation and client: round, client_id, accuracy, ..."""
    name = "client_evaluations.csv"
    table = self._rounds(name, "client_id", "accuracy")
    fits = table["accuracy"].between(-_RANGE_SLACK, 1 + _RANGE_SLACK)
    if not fits.all():
      row = int(fits.argmin())
      raise UsageError(
        f"{self.path / name}: row {row + 1} has no accuracy in [0, 1]: "
        f"{table['accuracy'].iloc[row]}."
      )
    # A run in the middle of an evaluation may have written half of its rows.
    return table[table[ROUND].isin(self.evaluations[ROUND])]

  @functools.cached_property
  def metrics(self) -> pd.DataFrame:
    """One row per round: what the method reports."""
    return self._rounds("metrics.csv")

  @functools.cached_property
  def timing(self) -> pd.DataFrame:
    """One row per round: round_seconds, evaluation_seconds."""
    return self._rounds("timing.csv")

  @functools.cached_property
  def costs(self) -> pd.DataFrame | None:
    """One row per round: bytes_down, bytes_up, ...; older runs have none."""
    return self._read("costs.csv", ROUND)

  @functools.cached_property
  def cohorts(self) -> pd.DataFrame | None:
    """One row per round and client of its cohort; older runs have none."""
    return self._read("cohorts.csv", ROUND, "client_id")

  @functools.cached_property
  def labels(self) -> pd.DataFrame | None:
    """One row per client: how many training examples of each class it has."""
    return self._read("labels.csv", "client_id")

  @functools.cached_property
  def clients(self) -> pd.DataFrame | None:
    """One row per client, at the end of the run; before, there is none."""
    return self._read("clients.csv", "client_id")

  def _rounds(self, name: str, *columns: str) -> pd.DataFrame:
    table = self._read(name, ROUND, *columns)
    if table is not None:
      return table
    if self.is_finished:
      raise UsageError(f"{self.path / name}: is missing in a finished run.")
    return pd.DataFrame({column: [] for column in (ROUND, *columns)})

  def _read(self, name: str, *columns: str) -> pd.DataFrame | None:
    """Reads a table, which may be absent."""
    path = self.path / name
    try:
      content = path.read_bytes()
      if not self.is_finished:  # The last line may be half written.
        content = content[: content.rfind(b"\n") + 1]
        if not content:
          return None
      table = pd.read_csv(
        io.BytesIO(content),
        float_precision="round_trip",
        converters={"client": str},  # Names, be they "007" or "NA".
      )
    except FileNotFoundError:
      return None
    except (OSError, ValueError) as error:
      raise UsageError(f"{path}: is no table: {error}") from error
    for column in columns:
      if column not in table:
        raise UsageError(f"{path}: has no column {column!r}.")
      values = pd.to_numeric(table[column], errors="coerce")
      if values.isna().any():
        row = int(values.isna().argmax())
        raise UsageError(
          f"{path}: row {row + 1} has no number under {column!r}: "
          f"{table[column].iloc[row]}."
        )
    return table


def find(paths: Iterable[str | os.PathLike[str]]) -> list[Run]:
  """Finds runs, each once.

  Args:
    paths: Folders of runs, or folders at any depth above them.

  Returns:
    The runs in the order of the paths; below each, those of a sweep are in its
    order, others in that of their names (numbers in them by value).

  Raises:
    UsageError: If a path does not exist or holds no run, or a run is damaged.
  """
  found: dict[pathlib.Path, Run] = {}
  for path in map(pathlib.Path, paths):
    if not path.is_dir():
      raise UsageError(f"{path}: there is no such folder.")
    folders = list(_folders(path))
    if not folders:
      raise UsageError(
        f"{path}: holds no run; expected a folder with config.json, or one "
        "above such folders."
      )
    for folder in folders:
      found.setdefault(folder.resolve(), read(folder))
  return list(found.values())


def read(path: pathlib.Path) -> Run:
  """Reads the run in a folder, without its tables.

  Raises:
    UsageError: If there is none, or it is damaged.
  """
  folder = RunFolder(path)
  config = _json(folder.config)
  for group, values in config.items():
    if not isinstance(values, dict):
      raise UsageError(
        f"{folder.config}: is not of a run: its {group} is no object."
      )
  flags = config.get("flags")
  if not isinstance(flags, dict):
    raise UsageError(f"{folder.config}: is not of a run: it has no flags.")
  for name, kind in (("algorithm", str), ("task", str), (SEED, int)):
    if not isinstance(flags.get(name), kind):
      raise UsageError(f"{folder.config}: is not of a run: it has no {name}.")
  summary = _json(folder.summary) if folder.is_finished else None
  # Without resolving links: a run is named where it is looked for.
  place = pathlib.Path(os.path.abspath(path))
  name = read_names(place.parent).get(place.name, flags["algorithm"])
  return Run(path, config, summary, name)


def read_names(folder: pathlib.Path) -> dict[str, str]:
  """Returns what methods are called, by the names of their runs' folders.

  Args:
    folder: The folder above; it may say nothing.

  Raises:
    UsageError: If it says it in no valid way.
  """
  path = folder / NAMES_FILE
  if not path.exists():
    return {}
  names = _json(path).get("names")
  if not isinstance(names, dict):
    raise UsageError(f"{path}: is not of a sweep: it has no names.")
  # Tables have one line for each.
  return {key: " ".join(str(name).split()) for key, name in names.items()}


def value_text(value: Any) -> str:
  """Returns a value as it is given on the command line."""
  if isinstance(value, list):
    return ",".join(map(value_text, value))
  if isinstance(value, float):
    return repr(value).removesuffix(".0")
  return str(value).lower() if isinstance(value, bool) else str(value)


def natural_order(text: str) -> list[tuple[bool, float, str]]:
  """Returns a key to sort by in which numbers count by their value."""
  parts = re.split(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", text)
  return [
    (bool(place % 2), float(part) if place % 2 else 0.0, part)
    for place, part in enumerate(parts)
  ]


def _folders(path: pathlib.Path) -> Iterator[pathlib.Path]:
  for name, folders, files in os.walk(path):
    folder = pathlib.Path(name)
    # It is empty while a run is just about to begin.
    if "config.json" in files and (folder / "config.json").stat().st_size:
      folders.clear()
      yield folder
    # Runs of a sweep are in its order.
    place = {name: number for number, name in enumerate(read_names(folder))}
    folders.sort(key=lambda n: (place.get(n, len(place)), natural_order(n)))


def _json(path: pathlib.Path) -> dict[str, Any]:
  try:
    content = json.loads(path.read_text())
  except (OSError, ValueError) as error:
    raise UsageError(
      f"{path}: cannot be read: {error}; restore it, or move it away."
    ) from error
  if not isinstance(content, dict):
    raise UsageError(f"{path}: is not of a run: expected a JSON object.")
  return content
