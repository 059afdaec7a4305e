"""Tables of runs side by side: a row for each method, over its seeds.

Runs on different tasks, differently cut data or other numbers of clients are in
tables of their own: their numbers say nothing about each other.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from tff_fair import methods
from tff_fair.declared import FieldError
from tff_fair.experiments.comparing import groups as run_groups
from tff_fair.experiments.comparing import marks, measures, noise_columns
from tff_fair.experiments.comparing import target as targets
from tff_fair.experiments.comparing.evaluations import (
  ChosenEvaluation,
  EvaluationChoice,
)
from tff_fair.experiments.comparing.groups import Group
from tff_fair.experiments.comparing.method_tables import Contents
from tff_fair.experiments.comparing.table import Row, Table
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.scores import ACCURACY, Score
from tff_fair.experiments.spec_text import HPARAM

# The tables of runs that comparisons read.
_READ = ("evaluations", "client_evaluations", "clients")
# Settings that are no news where they differ between methods.
_EXPECTED = ("algorithm", "aggregation")


def tables_to_read(*, with_target: bool) -> tuple[str, ...]:
  """Returns the tables of runs that `build` reads."""
  return (*_READ, *targets.READ) if with_target else _READ


def build(
  found: Sequence[Run],
  columns: Sequence[str],
  choice: EvaluationChoice,
  baseline: str | None = None,
  *,
  target: targets.Target | None = None,
  notes: Sequence[str] = (),
) -> list[Table]:
  """Compares runs.

  Args:
    found: Any runs.
    columns: Names of measures, or of all clients.
    choice: Which evaluation of each run to compare.
    baseline: The label or name of a method to compare the others with, client
      by client, in a table of its own.
    target: What the clients are to reach; None for no such table.
    notes: Sentences to add to those about the runs.

  Returns:
    For each task a table, the baseline first; with `choice.last`, one of
    averages; with a target, one of the costs to reach it; with a baseline, that
    of suffering clients, and one of paired differences for each of the former.

  Raises:
    FieldError: If there is nothing to compare, if the baseline is not one of
      the methods, if there are too many clients for a column each, or a run has
      too few evaluations to average.
    RunError: If the evaluations of runs do not go together.
  """
  chosen: dict[Run, ChosenEvaluation] = {}
  left_out = list(notes)
  for run in found:
    evaluation = choice.of(run)
    if isinstance(evaluation, str):
      left_out.append(f"Left out: {run.path} {evaluation}.")
    else:
      chosen[run] = evaluation
  if not chosen:
    raise FieldError("runs", f"nothing to compare. {' '.join(left_out[:3])}")
  clients = "honest clients" if choice.honest else "clients"
  tables = []
  for task, members in run_groups.by_task(list(chosen)).items():
    groups = run_groups.group(members)
    if baseline is not None:
      reference = find_baseline(groups, baseline)
      groups.sort(key=lambda group: group is not reference)
    contents = [Contents(task, groups, columns, chosen)]
    if choice.last is not None:
      averages = {run: choice.average(chosen[run]) for run in members}
      contents.append(Contents(task, groups, columns, averages, choice.last))
    first, *others = [c.statistics(clients) for c in contents]
    of_noise = noise_columns.note(columns, groups, chosen)
    first = dataclasses.replace(
      first,
      notes=(*run_notes(groups, chosen), *filter(None, [of_noise])),
    )
    tables += [first, *others]
    if target is not None:
      tables.append(
        target.table(task, groups, contents[0].score, honest=choice.honest)
      )
    if baseline is not None:
      score = contents[0].score
      caption = (
        f"{clients} against {reference.label}, {_units(score)}; suffering are "
        f"those {'below' if score.higher_is_better else 'above'} its mean"
      )
      tables.append(_changes(task, caption, groups, reference, chosen, score))
      tables += [c.differences(clients, reference) for c in contents]
  last = dataclasses.replace(tables[-1], notes=(*tables[-1].notes, *left_out))
  return [*tables[:-1], last]


def _changes(
  task: str,
  caption: str,
  groups: Sequence[Group],
  reference: Group,
  chosen: Mapping[Run, ChosenEvaluation],
  score: Score,
) -> Table:
  of_seeds = {run.seeds: run for run in reference.runs}
  shown = measures.changes(score)
  rows, notes = [], []
  for group in groups:
    if group is reference:
      continue
    changes = [
      _compare(chosen[of_seeds[run.seeds]], chosen[run])
      for run in group.runs
      if run.seeds in of_seeds
    ]
    if not changes:
      notes.append(
        f"Left out: {group.label} has no seed that {reference.label} has."
      )
      continue
    values = tuple(
      measures.over_seeds(measure, [change[name] for change in changes])
      for name, measure in shown.items()
    )
    rows.append(Row(group.label, len(changes), values, (None,) * len(values)))
  if not rows:
    raise FieldError(
      "baseline",
      f"there is nothing to compare it with on {task}.",
      value=reference.label,
    )
  return Table(task, caption, shown, tuple(rows), tuple(notes))


def _units(score: Score) -> str:
  """Returns the units of shares of clients and of changes of their score."""
  percent = ACCURACY.in_unit
  if score.in_unit == percent:
    return percent
  return f"shares {percent}, changes {score.in_unit}"


def find_baseline(groups: Sequence[Group], name: str) -> Group:
  """Returns the method of a label or title, or else of a name.

  Raises:
    FieldError: If there is none, or more than one of that name.
  """
  found = [group for group in groups if name in (group.label, group.title)] or [
    group
    for group in groups
    if name in (group.runs[0].name, group.runs[0].algorithm)
    or methods.understood(name) == group.runs[0].algorithm
  ]
  if len(found) != 1:
    labels = ", ".join(repr(group.label) for group in found or groups)
    raise FieldError(
      "baseline",
      f"is {'more than one' if found else 'none'} of the methods; give one of "
      f"{labels}.",
      value=name,
    )
  return found[0]


def _compare(
  before: ChosenEvaluation, after: ChosenEvaluation
) -> dict[str, float]:
  left_out = before.left_out() | after.left_out()
  old, new = (
    scores[~scores.index.isin(left_out)]
    for scores in (before.scores(), after.scores())
  )
  if not old.index.equals(new.index):
    raise RunError(
      f"{after.run.path}: was evaluated on other clients than "
      f"{before.run.path}; leave one of them out."
    )
  return after.run.score.compare(old.to_numpy(), new.to_numpy())


def run_notes(
  groups: Sequence[Group], chosen: Mapping[Run, ChosenEvaluation]
) -> tuple[str, ...]:
  """Returns sentences about rows that do not go together in all respects."""
  members = [run for group in groups for run in group.runs]
  notes = []
  seen = sorted({chosen[run].round for run in members})
  if len(seen) > 1:
    notes.append(f"Not all after the same round: {seen[0]} to {seen[-1]}.")
  notes += [
    f"Not finished: {run.path}, after round {chosen[run].round}."
    for run in members
    if not run.is_finished
  ]
  notes.append(marks.note({g.label: len(g.runs) for g in groups}))
  seeds = {tuple(run.seeds for run in group.runs) for group in groups}
  if len(seeds) > 1:
    notes.append("Not all with the same seeds.")
  differing = [
    name
    for name in run_groups.differing_settings(members)
    if name not in _EXPECTED
    and not name.startswith(HPARAM)
    and not any(f" {run_groups.short_name(name)}=" in g.label for g in groups)
  ]
  if differing:
    notes.append(f"Not the same in all rows: {', '.join(differing)}.")
  return tuple(filter(None, notes))
