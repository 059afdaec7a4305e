"""The record of a search: search.json in its folder.

It says how the search goes, and which settings each trial tries; the results
are in the folders of the runs. A search that goes on takes its trials from
here, and suggests the rest.
"""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from tasks.formats import files, parsing
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.folder import RunFolder
from tff_fair.experiments.searching import trials
from tff_fair.experiments.searching.study import (
  Dimension,
  SearchSettings,
  Space,
  Study,
)
from tff_fair.experiments.searching.trials import COMPLETE, PRUNED, Trial
from tff_fair.experiments.sweeps import setting_tables

RECORD_FILE = "search.json"
# What reading a record that is none raises.
_DAMAGE = (
  AttributeError,
  KeyError,
  OSError,
  OverflowError,
  RecursionError,
  TypeError,
  ValueError,
)
# More trials go on where fewer ended.
_FREE = ("trials",)


@dataclasses.dataclass(frozen=True)
class RecordedStudy:
  """A study as the record has it.

  Attributes:
    name: Its name.
    method: The name of its method.
    space: The settings to search.
    trials: Its trials by number, without what came of them.
  """

  name: str
  method: str
  space: Space
  trials: tuple[Trial, ...]


@dataclasses.dataclass(frozen=True)
class SearchRecord:
  """What the record says.

  Attributes:
    settings: How to search.
    studies: The studies by name.
  """

  settings: SearchSettings
  studies: Mapping[str, RecordedStudy]


def read(folder: pathlib.Path) -> SearchRecord | None:
  """Reads the record of a folder.

  Returns:
    None if there is none.

  Raises:
    RunError: If it is damaged.
  """
  path = folder / RECORD_FILE
  if not path.exists():
    return None
  try:
    content = parsing.parse_json(path.read_text("utf-8"))
    return SearchRecord(
      SearchSettings.from_dict(str(path), content["settings"]),
      {study["name"]: _read_study(study) for study in content["studies"]},
    )
  except _DAMAGE as error:
    raise RunError(
      f"{path}: is not the record of a search: {error}; restore it, or move it "
      "away with the runs beside it."
    ) from error


def with_outcomes(
  folder: pathlib.Path, found: SearchRecord, study: RecordedStudy
) -> list[Trial]:
  """Returns the trials of a study with what the folders say came of them.

  A trial that failed is one that has not ended: the search tries it again.

  Args:
    folder: The folder of the search.
    found: Its record.
    study: One of the studies.
  """
  ended = []
  for trial in study.trials:
    folders = [RunFolder(folder / name) for name in trial.runs]
    if all(run.is_finished for run in folders):
      state = COMPLETE
    elif folders[0].is_pruned:
      state = PRUNED
    else:
      ended.append(trial)
      continue
    came = trials.outcome(folder, trial.runs, found.settings, state)
    ended.append(dataclasses.replace(trial, outcome=came))
  return ended


def write(
  folder: pathlib.Path,
  settings: SearchSettings,
  studies: Sequence[Study],
  begun: Mapping[str, Sequence[Trial]],
  others: Sequence[RecordedStudy],
) -> None:
  """Writes the record.

  Args:
    folder: The folder of the search.
    settings: How to search.
    studies: Its studies.
    begun: Their trials, by the names of the studies.
    others: Studies of the folder that the search leaves as they are.
  """
  written = [
    _study(study.name, study.method.name, study.space, begun[study.name])
    for study in studies
  ]
  written += [_study(o.name, o.method, o.space, o.trials) for o in others]
  content = {"settings": dataclasses.asdict(settings), "studies": written}
  files.write(folder / RECORD_FILE, parsing.json_text(content))


def check_same(
  folder: pathlib.Path,
  found: SearchRecord,
  settings: SearchSettings,
  studies: Sequence[Study],
) -> None:
  """Checks that a search goes on with the one of the folder.

  Raises:
    RunError: If it is another one.
  """
  before, now = map(dataclasses.asdict, (found.settings, settings))
  differences = [
    f"{name}={before[name]} (here {now[name]})"
    for name in now
    if name not in _FREE and before[name] != now[name]
  ]
  for study in studies:
    if study.name not in found.studies:
      continue
    old, new = found.studies[study.name].space, study.space
    for name in {**old, **new}:
      if old.get(name) != new.get(name):
        differences.append(
          f"{name}={old.get(name, 'fixed')} (here {new.get(name, 'fixed')})"
        )
  if differences:
    raise RunError(
      f"{folder}: holds a search with {', '.join(dict.fromkeys(differences))}; "
      "choose another folder, or go on with the settings that it has."
    )


def _study(
  name: str, method: str, space: Space, begun: Sequence[Trial]
) -> dict[str, Any]:
  return {
    "name": name,
    "method": method,
    "space": {
      key: str(d.range) if d.range else list(d.choices)
      for key, d in space.items()
    },
    "integers": [key for key, d in space.items() if d.is_integer],
    "trials": [
      {
        "number": trial.number,
        "settings": dict(trial.settings),
        "runs": list(trial.runs),
      }
      for trial in begun
    ],
  }


def _read_study(content: Mapping[str, Any]) -> RecordedStudy:
  integers = content["integers"]
  return RecordedStudy(
    content["name"],
    content["method"],
    {
      name: Dimension(tuple(given))
      if isinstance(given, list)
      else Dimension(
        range=setting_tables.parse_range(given), is_integer=name in integers
      )
      for name, given in content["space"].items()
    },
    tuple(
      Trial(trial["number"], trial["settings"], tuple(trial["runs"]))
      for trial in content["trials"]
    ),
  )
