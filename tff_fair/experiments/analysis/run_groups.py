"""Groups runs over their seeds, labels the groups, and sorts runs by task."""

import functools
import json
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tff_fair import declared
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.configuration import USER_FILE_SUFFIX
from tff_fair.experiments.runs.discovery import natural_sort_key
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.spec import scores
from tff_fair.experiments.spec.scores import Score
from tff_fair.experiments.spec.seeds import Seeds
from tff_fair.experiments.spec.spec_text import HPARAM, TASK_OPTION

# Results of `natural_sort_key`, which orders strings by the numbers in them.
_Order = list[list[tuple[bool, float, str]]]


class Group(NamedTuple):
  """Runs that differ only in their seeds."""

  label: str
  runs: tuple[Run, ...]


def group(runs: Sequence[Run]) -> list[Group]:
  """Groups runs that differ only in their seeds, and labels the groups.

  The groups of a method are sorted by their settings.
  """
  same: dict[str, dict[Seeds, Run]] = {}
  for run in runs:
    key = json.dumps([run.title, run.settings], sort_keys=True)
    of_seeds = same.setdefault(key, {})
    if run.seeds in of_seeds:
      raise RunError(
        f"{run.path}: is the same run as {of_seeds[run.seeds].path}, seed "
        "included; leave one of them out."
      )
    of_seeds[run.seeds] = run
  members = [
    tuple(of_seeds[seed] for seed in sorted(of_seeds))
    for of_seeds in same.values()
  ]
  of_methods: dict[tuple[str, str], list[tuple[Run, ...]]] = {}
  for member in members:
    of_methods.setdefault((member[0].task, member[0].title), []).append(member)
  several_tasks = len({task for task, _ in of_methods}) > 1
  groups = []
  for (task, title), alike in of_methods.items():
    names = differing_settings([member[0] for member in alike])
    method = f"{task} {title}" if several_tasks else title
    for member in sorted(alike, key=functools.partial(_order, names)):
      settings = member[0].settings
      values = [
        f"{short_name(name)}={_short_text(settings[name])}"
        for name in names
        if name in settings
      ]
      groups.append(Group(", ".join([method, *values]), member))
  return groups


def by_task(runs: Sequence[Run]) -> dict[str, list[Run]]:
  """Groups runs by their data and number of clients; the keys are titles."""
  same: dict[tuple[object, ...], list[Run]] = {}
  for run in runs:
    same.setdefault((*data_key(run), _num_clients(run)), []).append(run)
  firsts = [members[0] for members in same.values()]
  titled = {}
  for first, members in zip(firsts, same.values(), strict=True):
    alike = [other for other in firsts if other.task == first.task]
    options = distinguishing_options(first, alike)
    title = ", ".join([first.task, *options, f"{_num_clients(first)} clients"])
    titled[title] = members
  return titled


def data_key(run: Run, further: Sequence[str] = ()) -> tuple[object, ...]:
  """Returns a key for a run's data: its task and the settings of its data.

  The settings in `further` are included, too.
  """
  found = _data_settings(run, further)
  return run.task, *sorted((name, str(value)) for name, value in found.items())


def _data_settings(run: Run, further: Sequence[str]) -> dict[str, object]:
  """Returns the settings that determine a run's data, `further` included."""
  return {
    name: value
    for name, value in run.settings.items()
    if name.startswith(TASK_OPTION) or name in ("validation_fraction", *further)
  }


def distinguishing_options(
  run: Run, others: Iterable[Run], further: Sequence[str] = ()
) -> list[str]:
  """Returns a run's data settings that differ in `others`, as "name=value"."""
  of_others = [_data_settings(other, further) for other in others]
  return [
    f"{short_name(name)}={value}"
    for name, value in _data_settings(run, further).items()
    if any(other.get(name) != value for other in of_others)
  ]


def differing_settings(runs: Sequence[Run]) -> list[str]:
  """Returns the settings that are not the same in all runs."""
  names = dict.fromkeys(name for run in runs for name in run.settings)
  differing = [name for name in names if _differs(name, runs)]
  prefixes = (HPARAM, TASK_OPTION)
  return sorted(
    differing, key=lambda n: [not n.startswith(p) for p in prefixes]
  )


def _differs(name: str, runs: Sequence[Run]) -> bool:
  # Versions of a user's file are compared only between runs that use the same
  # function in it; the function itself is compared as another setting.
  function = name.removesuffix(USER_FILE_SUFFIX)
  values: dict[str, set[str]] = {}
  for run in runs:
    function_value = run.settings.get(function) if name != function else None
    found = values.setdefault(json.dumps(function_value), set())
    found.add(json.dumps(run.settings.get(name)))
  return any(len(found) > 1 for found in values.values())


def short_name(setting: str) -> str:
  """Returns a setting's name without its prefix "hparam." or "task_option."."""
  last = setting.rpartition(".")[2]
  # Without its prefix, a hyperparameter `seed` would look like the run's seed.
  return setting if last == "seed" else last


def _short_text(value: object) -> str:
  return f"{value:.6g}" if isinstance(value, float) else declared.as_text(value)


def _num_clients(run: Run) -> int:
  return int(run.client_evaluations["client_id"].nunique())


def _order(names: Sequence[str], members: tuple[Run, ...]) -> _Order:
  """Returns a group's sort key: its values of the settings `names`."""
  values = (members[0].settings.get(name, "") for name in names)
  return [natural_sort_key(declared.as_text(value)) for value in values]


def common_score(runs: Sequence[Run]) -> Score:
  """Returns the runs' common score, with enough decimals to show its values."""
  first = runs[0]
  for other in runs[1:]:
    if other.score.name != first.score.name:
      raise RunError(
        f"{other.path}: its clients have {other.score.plural}, those of "
        f"{first.path} have {first.score.plural}; compare the two apart."
      )
  beside = tuple(
    name
    for name in first.score.extra_scores
    if all(name in run.score.extra_scores for run in runs)
  )
  score = scores.with_extra_scores(first.score.name, beside)
  return score.with_fitting_digits(min(map(_last_mean, runs)))


def _last_mean(run: Run) -> float:
  table = run.evaluations
  if table.empty:
    return math.inf
  last = table.loc[table[ROUND].idxmax(), f"{run.score.name}/mean"]
  return float(last) if last > 0 else math.inf
