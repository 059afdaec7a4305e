"""Writes, reads and tabulates ceiling.json: a run's distance from its ceiling.

A ceiling is the least losses that any training on the run's data can reach.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from tff_fair import declared
from tff_fair.experiments.analysis import ceiling, measures, run_groups
from tff_fair.experiments.analysis.ceiling import RISKS, Ceilings
from tff_fair.experiments.analysis.comparison_table import Row, Table
from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.analysis.run_groups import Group
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import configuration, discovery
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.runs.run import Run
from tff_fair.files import atomic, parsing

_TABLES = ("data", "least", "runs")
_MEASURED = (*RISKS, *(f"test_{name}" for name in RISKS))
_NUMBERS = {
  "data": ("radius",),
  "least": ("s", "value", "bound", "gap", "norm", *_MEASURED),
  "runs": (*_MEASURED, *(f"excess_{name}" for name in RISKS)),
}
# One table shows only ceilings that agree in these settings.
_SETTINGS = (
  "share",
  "weighting",
)


def _identity(run: Run) -> dict[str, Any]:
  """Returns the JSON values that identify a run's data and rounds."""
  found = {
    "options": run_groups.data_key(run),
    "seed": str(run.seeds),
    "digests": run.config.get(configuration.DATA_DIGESTS, {}),
    "rounds": (run.summary or {}).get("rounds"),
  }
  identity: dict[str, Any] = json.loads(json.dumps(found))
  return identity


def write(found: Ceilings) -> None:
  """Writes ceiling.json into each run's folder; `RunError` if a write fails."""
  for _, row in found.runs.iterrows():
    of_data, of_least = (
      table[table["data"] == row["data"]] for table in (found.data, found.least)
    )
    of_run = found.runs[found.runs["path"] == row["path"]]
    part = dataclasses.replace(found, data=of_data, least=of_least, runs=of_run)
    run = discovery.read_run(pathlib.Path(row["path"]))
    content = {"of": _identity(run), **as_json(part)}
    file = RunFolder(run.path).ceiling
    try:
      atomic.write(file, parsing.json_text(content))
    except OSError as error:
      raise RunError(
        f"{file}: cannot be written: {error.strerror}; pages do not show the "
        "ceiling of this run."
      ) from error


def as_json(found: Ceilings) -> dict[str, Any]:
  """Returns ceilings as JSON values, without the notes."""
  return {
    **{name: getattr(found, name) for name in _SETTINGS},
    **{name: getattr(found, name).to_dict("records") for name in _TABLES},
  }


def read(
  groups: Iterable[Group], rounds: Mapping[Run, int] | None = None
) -> tuple[Ceilings | None, list[str]]:
  """Returns the runs' ceilings, joined, and notes on those that are not shown.

  For example, a ceiling is not shown if it is for another round than
  `rounds[run]`.
  """
  parts: list[dict[str, Any]] = []
  notes: list[str] = []
  for group in groups:
    for run in group.runs:
      file = RunFolder(run.path).ceiling
      if not run.is_finished or not file.exists():
        continue
      found = _read(run, file, (rounds or {}).get(run))
      if isinstance(found, dict) and any(
        found[name] != parts[0][name] for name in _SETTINGS if parts
      ):
        found = (
          "has another share or other weights of clients than the other runs"
        )
      if isinstance(found, str):
        notes.append(f"{file}: not shown, as it {found}.")
        continue
      found["runs"][0] |= {"path": str(run.path), "method": group.label}
      parts.append(found)
  if not parts:
    return None, notes
  return _joined(parts), notes


def _read(
  run: Run, file: pathlib.Path, round_num: int | None
) -> dict[str, Any] | str:
  try:
    found = parsing.null_to_nan(parsing.parse_json(file.read_bytes()))
    before, now = found["of"], _identity(run)
    if before["rounds"] != now["rounds"]:
      return (
        f"is from round {before['rounds']}, but the run has {now['rounds']}"
      )
    if before != now:
      return "belongs to other data than the run"
    if round_num is not None and round_num != now["rounds"]:
      return f"is from round {now['rounds']}, not from round {round_num}"
    [_], [_] = found["data"], found["runs"]
    content: dict[str, Any] = {n: found[n] for n in (*_SETTINGS, *_TABLES)}
    _check(content)
  except (OSError, LookupError, TypeError, ValueError) as error:
    return f"cannot be read ({error})"
  return content


def _check(content: dict[str, Any]) -> None:
  """Raises `LookupError`, `TypeError` or `ValueError` for invalid values."""
  declared.check_number("share", content["share"], minimum=0, maximum=1)
  declared.check_choice("weighting", content["weighting"], ceiling.WEIGHTINGS)
  lacking = {*RISKS} - {row["risk"] for row in content["least"]}
  if lacking:
    raise ValueError(f"least has no row of {', '.join(sorted(lacking))}")
  for name, columns in _NUMBERS.items():
    for row in content[name]:
      for column in columns:
        row[column] = float(row[column])
        # Without test data, test losses are NaN.
        if not (math.isfinite(row[column]) or column.startswith("test_")):
          raise ValueError(f"{column} is {row[column]}")


def _joined(parts: Sequence[Mapping[str, Any]]) -> Ceilings:
  """Joins the contents of ceiling.json files; numbers their data sets."""
  numbers: dict[str, int] = {}
  rows: dict[str, list[dict[str, Any]]] = {name: [] for name in _TABLES}
  for part in parts:
    [data] = part["data"]
    least = [row | {"data": 0} for row in part["least"]]
    key = json.dumps([data | {"data": 0}, least])
    is_new = key not in numbers
    number = numbers.setdefault(key, len(numbers))
    for name in _TABLES if is_new else ("runs",):
      rows[name] += [row | {"data": number} for row in part[name]]
  data, least_rows, runs = (pd.DataFrame(rows[name]) for name in _TABLES)
  first = parts[0]
  return Ceilings(
    first["share"], first["weighting"], data, least_rows, runs, ()
  )


def table(
  task: str, groups: Sequence[Group], rounds: Mapping[Run, int]
) -> tuple[Table | None, list[str]]:
  """Returns a table of methods' excess over the least losses, and notes.

  The table is None if no run has a ceiling that can be shown.
  """
  found, notes = read(groups, rounds)
  if found is None:
    return None, notes
  shown = {
    f"above_least_{risk}": Measure(f"Above least {name}", False, 1.0, 4)
    for risk, name in found.names.items()
  }
  rows = []
  for group in groups:
    of_method = found.runs[found.runs["method"] == group.label]
    if of_method.empty:
      continue
    values = tuple(
      measures.over_seeds(measure, [*of_method[f"excess_{risk}"]])
      for risk, measure in zip(RISKS, shown.values(), strict=True)
    )
    rows.append(Row(group.label, len(of_method), values, (None,) * len(RISKS)))
  caption = (
    f"training losses above the least that any training can reach, in "
    f"{found.unit}"
  )
  return Table(task, caption, shown, tuple(rows), ()), notes
