"""What a sweep runs, as its file and the command line say it.

A setting is what a run is given by name: a flag of training, "hparam.NAME" or
"task_option.NAME". What is said of a method replaces what is said for all; the
command line replaces both. Only the text is checked here: whether methods have
their hyperparameters is known when TensorFlow Federated is loaded.
"""

import dataclasses
import pathlib
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from absl import flags

from binaries import command_line, train
from binaries.flags import sweep_flags
from tff_fair.experiments.errors import RunError as UsageError
from tff_fair.experiments.runs import run as runs

# The values to run a setting with.
Grid = Mapping[str, Sequence[str]]

_DOTTED = (runs.HPARAM, runs.TASK_OPTION)
_REPEATED = ("task_option", "hparam")
# The sweep itself says where results go, and which methods are run.
_NOT_HERE = {
  "output_dir": "the sweep gives each run a folder of its own",
  "algorithm": "methods are named by [[methods]], or by --algorithms",
}


@dataclasses.dataclass(frozen=True)
class Method:
  """A method with the settings of its own.

  Attributes:
    name: What it is called in tables.
    algorithm: Name of the method.
    grid: Its own settings; one that does not vary has one value.
    place: Where it is said, for errors.
  """

  name: str
  algorithm: str
  grid: Grid
  place: str


@dataclasses.dataclass(frozen=True)
class Sweep:
  """What to run.

  Attributes:
    title: What it is about.
    methods: At least one.
    common: Settings of all methods, which theirs replace.
    final: Settings of all methods, which replace theirs.
    varying: Which settings of all methods are said in a grid.
    place: Where the common settings are said, for errors.
  """

  title: str | None
  methods: tuple[Method, ...]
  common: Grid
  final: Grid
  varying: frozenset[str]
  place: str


def read() -> Sweep:
  """Reads the sweep that the flags describe.

  Raises:
    UsageError: If something in the file or the flags is not valid.
  """
  path = sweep_flags.file()
  grid = _table("--grid", sweep_flags.grid(), varies=True)
  final = _joined(
    _table("--flag", sweep_flags.settings(), varies=False), grid, "--grid"
  )
  chosen = sweep_flags.algorithms()
  if path is None:
    if not chosen:
      raise UsageError(
        "--algorithms: is missing; name the methods to run, or give a --file."
      )
    methods = [Method(name, name, {}, "--algorithms") for name in chosen]
    return Sweep(None, tuple(methods), {}, final, frozenset(grid), "--grid")
  sweep = _read_file(path)
  return dataclasses.replace(
    sweep,
    methods=_chosen(sweep.methods, chosen, path),
    final=final,
    varying=sweep.varying | grid.keys(),
  )


def _read_file(path: pathlib.Path) -> Sweep:
  place = f"--file={path}"
  try:
    content = tomllib.loads(path.read_text())
  except (OSError, ValueError) as error:
    raise UsageError(f"{place}: {error}") from error
  _check_names(place, content, ("title", "flags", "grid", "methods"))
  title = content.get("title")
  if title is not None and not isinstance(title, str):
    raise UsageError(f"{place}: title must be a text, found {title!r}.")
  grid = _table(f"{place}: [grid]", content.get("grid", {}), varies=True)
  common = _joined(
    _table(f"{place}: [flags]", content.get("flags", {}), varies=False),
    grid,
    f"{place}: [grid]",
  )
  entries = content.get("methods", [])
  if not isinstance(entries, list) or not entries:
    raise UsageError(f"{place}: expected one [[methods]] or more.")
  methods = tuple(
    _method(f"{place}: [[methods]] number {number}", entry)
    for number, entry in enumerate(entries, 1)
  )
  return Sweep(title, methods, common, {}, frozenset(grid), place)


def _method(place: str, entry: Any) -> Method:
  _check_names(place, entry, ("name", "algorithm", "hparam", "flags", "grid"))
  algorithm = entry.get("algorithm")
  name = entry.get("name", algorithm)
  for key, value in (("algorithm", algorithm), ("name", name)):
    if not isinstance(value, str) or not value:
      raise UsageError(f"{place}: {key} must be a text, found {value!r}.")
  place = f"{place} ({name})"
  hparams = entry.get("hparam", {})
  if not isinstance(hparams, dict):
    raise UsageError(f"{place}: expected hparam.NAME = VALUE.")
  grid = _joined(
    _table(f"{place}: flags", entry.get("flags", {}), varies=False),
    _table(f"{place}: grid", entry.get("grid", {}), varies=True),
    f"{place}: grid",
  )
  own = {
    name: value if isinstance(value, list) else [value]
    for name, value in hparams.items()
  }
  grid = _joined(_table(place, {"hparam": own}, varies=True), grid, place)
  return Method(name, algorithm, grid, place)


def _table(place: str, content: Any, *, varies: bool) -> dict[str, list[str]]:
  """Reads a table of settings.

  Args:
    place: Where it is, for errors.
    content: What is there.
    varies: Whether each setting has a list of values, or one value.
  """
  if not isinstance(content, dict):
    raise UsageError(f"{place}: must be a table, found {content!r}.")
  grid: dict[str, list[str]] = {}
  for name, value in _flat(place, content):
    if name in grid:
      raise UsageError(f"{place}: {name} is given twice.")
    if varies and (not isinstance(value, list) or not value):
      raise UsageError(
        f"{place}: {name} must be a list of values, found {value!r}."
      )
    grid[name] = [
      _text(f"{place}: {name}", name, v) for v in (value if varies else [value])
    ]
    if len(set(grid[name])) < len(grid[name]):
      raise UsageError(f"{place}: {name} has a value twice.")
  return grid


def _flat(place: str, content: Mapping[str, Any]) -> list[tuple[str, Any]]:
  """Spreads `hparam` and `task_option`, as tables or as lists of texts."""
  flat: list[tuple[str, Any]] = []
  for name, value in content.items():
    if name not in _REPEATED:
      flat.append((name, value))
    elif isinstance(value, dict):
      flat += [(f"{name}.{key}", item) for key, item in value.items()]
    else:
      for text in value if isinstance(value, list) else [value]:
        key, equals, item = str(text).partition("=")
        if not equals:
          raise UsageError(f"{place}: {name}={text}: expected NAME=VALUE.")
        flat.append((f"{name}.{key}", item))
  return flat


def _text(place: str, name: str, value: Any) -> str:
  """Returns a value as the command line takes it, checked as far as it can."""
  if isinstance(value, list) and name in flags.FLAGS:
    # A list is one value where the flag is a list, as in --workers=A,B.
    if not isinstance(flags.FLAGS[name].parser, flags.ListParser):
      raise UsageError(
        f"{place} must be one value, found {value!r}; lists of values are for "
        "grids."
      )
  elif not isinstance(value, str | int | float | bool):
    raise UsageError(
      f"{place} must be a text, a number, true or false, found {value!r}."
    )
  text = runs.value_text(value)
  if name.startswith(_DOTTED):
    return text
  valid = command_line.flag_values(train.GROUPS)
  if name in _NOT_HERE:
    raise UsageError(f"{place}: cannot be set: {_NOT_HERE[name]}.")
  if name not in valid:
    names = sorted(valid.keys() - _NOT_HERE.keys() - set(_REPEATED))
    raise UsageError(
      f"{place}: is no flag of training; valid: {', '.join(names)}, "
      "hparam.NAME, task_option.NAME."
    )
  try:
    flags.FLAGS[name].parser.parse(text)
  except (TypeError, ValueError) as error:
    raise UsageError(f"{place}={text}: {error}") from error
  return text


def _joined(fixed: Grid, varying: Grid, place: str) -> dict[str, list[str]]:
  for name in fixed.keys() & varying.keys():
    raise UsageError(f"{place}: {name} has a fixed value too; give one.")
  return {name: list(v) for name, v in {**fixed, **varying}.items()}


def _chosen(
  methods: Sequence[Method], names: Sequence[str], path: pathlib.Path
) -> tuple[Method, ...]:
  for name in names:
    if not any(name in (m.name, m.algorithm) for m in methods):
      valid = dict.fromkeys(m.algorithm for m in methods)
      raise UsageError(
        f"--algorithms={name}: is not in {path}; it has {', '.join(valid)}."
      )
  return tuple(
    m for m in methods if not names or {m.name, m.algorithm} & set(names)
  )


def _check_names(place: str, table: Any, valid: Sequence[str]) -> None:
  if not isinstance(table, dict):
    raise UsageError(f"{place}: must be a table, found {table!r}.")
  for name in table:
    if name not in valid:
      raise UsageError(
        f"{place}: unknown {name!r}; expected {', '.join(valid)}."
      )
