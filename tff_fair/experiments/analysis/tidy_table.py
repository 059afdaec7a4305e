"""Joins many runs' tables into one, for users' own plots and statistics."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Sequence
from typing import Literal

from tff_fair import declared
from tff_fair.experiments.analysis import run_groups
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.runs.run import Run

if typing.TYPE_CHECKING:
  import pandas as pd

TableName = Literal[
  "client_evaluations",
  "evaluations",
  "rounds",
  "clients",
  "cohorts",
  "costs",
  "labels",
]

_METHOD, _SEED = "method", "seed"


def table(
  runs: Run | discovery.Place | Iterable[Run | discovery.Place],
  name: TableName = "client_evaluations",
) -> pd.DataFrame:
  """Returns a table of all runs, with columns for the settings that differ.

  Args:
    runs: Runs, folders of runs, or folders at any depth above them; a single
      run or folder needs no list.
    name: The table, by its name as an attribute of `Run`.

  Returns:
    The rows of all runs, one run after the other. The first columns are
    `method`, a label such as "FedAvg, equal weights"; `seed`, and `data_seed`
    and `model_seed` if they differ from it; and each setting that is not the
    same in all runs, under its name in `RunSpec.vary`, with no value for a run
    that does not have it. (A setting with the name of another column has the
    prefix "hparam." or "task_option.".) The columns of the table follow. A run
    without that table, as before its first evaluation, has no rows.

  Raises:
    FieldError: If there is no such table; a `ValueError`.
    RunError: If a path does not exist or holds no run, a run is damaged, or two
      runs have the same settings and seeds.
  """
  import pandas as pd  # noqa: PLC0415

  declared.check_choice("name", name, discovery.TABLES)
  found = discovery.find(runs)
  discovery.say_changes(found)
  run_groups.group(found)  # Raises a `RunError` if two runs are the same.
  tables = [getattr(run, name) for run in found]
  taken = {_METHOD, *(c for t in tables if t is not None for c in t)}
  settings = _settings(found, taken)
  parts = [
    pd.concat([pd.DataFrame(of_run, rows.index), rows], axis=1)
    for of_run, rows in zip(settings, tables, strict=True)
    if rows is not None and len(rows)
  ]
  names = [*settings[0]] if settings else [_METHOD, _SEED]
  columns = dict.fromkeys([*names, *(c for part in parts for c in part)])
  if not parts:
    return pd.DataFrame(columns=[*columns])
  # Empty columns would change the types of the other runs' values.
  full = [part.dropna(axis=1, how="all") for part in parts]
  return pd.concat(full, ignore_index=True).reindex(columns=[*columns])


def _settings(runs: Sequence[Run], taken: set[str]) -> list[dict[str, object]]:
  """Returns each run's method, seed and differing settings, by column."""
  seeds = {
    _SEED: [run.seeds.draws for run in runs],
    "data_seed": [run.seeds.data for run in runs],
    "model_seed": [run.seeds.model for run in runs],
  }
  columns: dict[str, list[object]] = {
    _METHOD: [run.title for run in runs],
    **{n: [*of] for n, of in seeds.items() if n == _SEED or of != seeds[_SEED]},
  }
  taken |= {*columns}
  names = run_groups.differing_settings(runs)
  if len({run.title for run in runs}) == len(
    {(run.title, run.algorithm) for run in runs}
  ):
    names = [name for name in names if name != "algorithm"]
  short = [run_groups.short_name(name) for name in names]
  for name, shown in zip(names, short, strict=True):
    is_clear = shown not in taken and short.count(shown) == 1
    columns[shown if is_clear else name] = _values(
      [run.settings.get(name) for run in runs]
    )
  rows = zip(*columns.values(), strict=True)
  return [dict(zip(columns, row, strict=True)) for row in rows]


def _values(values: Sequence[object]) -> list[object]:
  """Returns a column's cells, parsed if all of them are numeric strings.

  Otherwise scalars are kept, and lists become strings.
  """
  texts = [v if isinstance(v, str) else None for v in values]
  try:
    numbers = [None if t is None else float(t) for t in texts]
  except ValueError:
    numbers = []
  if numbers and all(v is None or isinstance(v, str) for v in values):
    return [n if n is None or n % 1 else int(n) for n in numbers]
  return [
    v
    if v is None or isinstance(v, bool | int | float | str)
    else declared.as_text(v)
    for v in values
  ]
