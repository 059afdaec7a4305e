"""Tables of runs side by side: a row for each method, over its seeds.

Runs on different tasks, differently cut data or other numbers of clients are in
tables of their own: their numbers say nothing about each other.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from binaries import compare_flags, measures, run_groups, runs
from binaries.command_line import UsageError
from binaries.measures import Measure, Value
from tff_fair.metrics import compare_clients

# Settings that are no news where they differ between methods.
_EXPECTED = ("algorithm", "aggregation")


class Row(NamedTuple):
  """A method in a table.

  Attributes:
    label: The method and its settings.
    num_seeds: How many runs the values are of.
    values: One for each measure of the table.
  """

  label: str
  num_seeds: int
  values: tuple[Value, ...]


@dataclasses.dataclass(frozen=True)
class Table:
  """Methods side by side.

  Attributes:
    task: What was trained on.
    caption: What the table shows.
    measures: The columns by name.
    rows: At least one.
    notes: What has to be known when it is read.
  """

  task: str
  caption: str
  measures: Mapping[str, Measure]
  rows: tuple[Row, ...]
  notes: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Evaluation:
  """Which evaluation of a run is looked at.

  Attributes:
    round: The number of its round, `compare_flags.LAST` or `BEST`.
    criterion: The measure by which the best is chosen.
    unfinished: Whether runs that are not finished take part.
  """

  round: str | int
  criterion: str
  unfinished: bool

  def round_of(self, run: runs.Run) -> int | str:
    """Returns the round of the evaluation, or why there is none."""
    if not run.is_finished and not self.unfinished:
      return "is not finished (--unfinished includes it)"
    table = run.evaluations
    if table.empty:
      return "has no evaluation yet"
    if self.round == compare_flags.LAST:
      return int(table[runs.ROUND].max())
    if self.round == compare_flags.BEST:
      measure = measures.MEASURES[self.criterion]
      keys = [
        measures.badness(measure, value)
        for value in column(run, self.criterion)
      ]
      return int(table[runs.ROUND].iloc[int(np.argmin(keys))])
    if self.round in set(table[runs.ROUND]):
      return int(self.round)
    return f"has no evaluation after round {self.round}"


def build(
  found: Sequence[runs.Run],
  columns: Sequence[str],
  evaluation: Evaluation,
  baseline: str | None = None,
) -> list[Table]:
  """Compares runs.

  Args:
    found: Any runs.
    columns: Names of measures.
    evaluation: Which evaluation to compare.
    baseline: The label or name of a method to compare the others with, client
      by client, in a table of its own.

  Returns:
    For each task a table, followed by that of the baseline.

  Raises:
    UsageError: If there is nothing to compare, or the baseline is not one of
      the methods.
  """
  rounds: dict[runs.Run, int] = {}
  left_out = []
  for run in found:
    round_or_reason = evaluation.round_of(run)
    if isinstance(round_or_reason, str):
      left_out.append(f"Left out: {run.path} {round_or_reason}.")
    else:
      rounds[run] = round_or_reason
  if not rounds:
    raise UsageError(f"RUN: nothing to compare. {' '.join(left_out[:3])}")
  tables = []
  for task, members in run_groups.by_task(list(rounds)).items():
    groups = run_groups.group(members)
    tables.append(_statistics(task, groups, columns, rounds))
    if baseline is not None:
      tables.append(_changes(task, groups, baseline, rounds))
  last = dataclasses.replace(tables[-1], notes=(*tables[-1].notes, *left_out))
  return [*tables[:-1], last]


def column(run: runs.Run, name: str) -> list[float]:
  """Returns a measure in all evaluations of a run.

  Raises:
    UsageError: If the run does not have it.
  """
  table, title = run.evaluations, measures.evaluation_column(name)
  if title not in table:
    raise UsageError(
      f"{run.path / 'evaluations.csv'}: has no column {title!r}."
    )
  return [float(value) for value in table[title]]


def _statistics(
  task: str,
  groups: Sequence[run_groups.Group],
  columns: Sequence[str],
  rounds: Mapping[runs.Run, int],
) -> Table:
  def value(run: runs.Run, name: str) -> float:
    of_rounds = dict(
      zip(run.evaluations[runs.ROUND], column(run, name), strict=True)
    )
    return of_rounds[rounds[run]]

  shown = {name: measures.MEASURES[name] for name in columns}
  rows = tuple(
    Row(
      group.label,
      len(group.runs),
      tuple(
        measures.over_seeds(measure, [value(run, name) for run in group.runs])
        for name, measure in shown.items()
      ),
    )
    for group in groups
  )
  notes = _notes(groups, rounds)
  return Table(
    task, "test accuracy over clients in percent", shown, rows, notes
  )


def _changes(
  task: str,
  groups: Sequence[run_groups.Group],
  baseline: str,
  rounds: Mapping[runs.Run, int],
) -> Table:
  reference = _baseline(groups, baseline)
  of_seeds = {run.seed: run for run in reference.runs}
  rows, notes = [], []
  for group in groups:
    pairs = [
      (of_seeds[run.seed], run) for run in group.runs if run.seed in of_seeds
    ]
    if group is reference:
      continue
    if not pairs:
      notes.append(
        f"Left out: {group.label} has no seed that {reference.label} has."
      )
      continue
    changes = [_compare(before, after, rounds) for before, after in pairs]
    values = tuple(
      measures.over_seeds(measure, [change[name] for change in changes])
      for name, measure in measures.CHANGES.items()
    )
    rows.append(Row(group.label, len(pairs), values))
  if not rows:
    raise UsageError(
      f"--baseline={baseline}: there is nothing to compare it with on {task}."
    )
  caption = (
    f"clients against {reference.label}, in percent; suffering are those below "
    f"its mean"
  )
  return Table(task, caption, measures.CHANGES, tuple(rows), tuple(notes))


def _baseline(
  groups: Sequence[run_groups.Group], name: str
) -> run_groups.Group:
  found = [group for group in groups if group.label == name] or [
    group
    for group in groups
    if name in (group.runs[0].name, group.runs[0].algorithm)
  ]
  if len(found) != 1:
    labels = ", ".join(repr(group.label) for group in found or groups)
    raise UsageError(
      f"--baseline={name}: is {'more than one' if found else 'none'} of the "
      f"methods; give one of {labels}."
    )
  return found[0]


def _compare(
  before: runs.Run, after: runs.Run, rounds: Mapping[runs.Run, int]
) -> dict[str, float]:
  tables = []
  for run in (before, after):
    clients = run.client_evaluations
    clients = clients[clients[runs.ROUND] == rounds[run]]
    tables.append(clients.set_index("client_id")["accuracy"].sort_index())
  if not tables[0].index.equals(tables[1].index):
    raise UsageError(
      f"{after.path}: was evaluated on other clients than {before.path}; leave "
      "one of them out."
    )
  return compare_clients(*tables)


def _notes(
  groups: Sequence[run_groups.Group], rounds: Mapping[runs.Run, int]
) -> tuple[str, ...]:
  members = [run for group in groups for run in group.runs]
  notes = []
  seen = sorted({rounds[run] for run in members})
  if len(seen) > 1:
    notes.append(f"Not all after the same round: {seen[0]} to {seen[-1]}.")
  notes += [
    f"Not finished: {run.path}, after round {rounds[run]}."
    for run in members
    if not run.is_finished
  ]
  seeds = {tuple(run.seed for run in group.runs) for group in groups}
  if len(seeds) > 1:
    notes.append("Not all with the same seeds.")
  differing = [
    name
    for name in run_groups.differing_settings(members)
    if name not in _EXPECTED
    and not name.startswith(runs.HPARAM)
    and not any(f" {run_groups.short_name(name)}=" in g.label for g in groups)
  ]
  if differing:
    notes.append(f"Not the same in all rows: {', '.join(differing)}.")
  return tuple(notes)
