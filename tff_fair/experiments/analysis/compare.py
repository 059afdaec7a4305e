"""Compares runs in tables: a row for each method, with means over its seeds."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from tff_fair import declared
from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import (
  ceiling_records,
  chosen_evaluations,
  columns as table_columns,
  comparison_table,
  measures,
  method_tables,
  questions,
  references,
  run_groups,
)
from tff_fair.experiments.analysis.chosen_evaluations import (
  BEST,
  ChosenEvaluation,
  EvaluationSelector,
)
from tff_fair.experiments.analysis.comparison_table import Row, Table
from tff_fair.experiments.analysis.method_tables import Target, TaskComparison
from tff_fair.experiments.analysis.run_groups import Group
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.runs import discovery
from tff_fair.experiments.runs.discovery import FoundRuns, Place
from tff_fair.experiments.runs.run import Run
from tff_fair.experiments.spec.scores import ACCURACY, Score
from tff_fair.experiments.spec.spec_text import HPARAM
from tff_fair.experiments.texts import run_warnings

# The tables of a run that every comparison needs.
_READ = ("evaluations", "client_evaluations", "clients")
# Settings that usually differ between methods, so that no note lists them.
_EXPECTED = ("algorithm", "aggregation", "client_weighting")


def find(
  runs: Run | Place | Iterable[Run | Place],
  *,
  with_costs: bool = False,
  verify: bool = False,
) -> FoundRuns:
  """Finds runs to compare, and reads the tables that `build` needs."""
  read = (*_READ, *method_tables.COST_TABLES) if with_costs else _READ
  return discovery.find_intact(runs, read, verify=verify)


def build(
  found: FoundRuns,
  columns: Sequence[str],
  selector: EvaluationSelector,
  baseline: str | None = None,
  target: Target | None = None,
  question: str | None = None,
) -> list[Table]:
  """Returns each task's tables: measures of its methods, then differences."""
  for name in columns:
    declared.check_choice("columns", name, table_columns.NAMES)
  questions.check(question)
  left_out = found.notes
  chosen: dict[Run, ChosenEvaluation] = {}
  for run in found.runs:
    evaluation = selector.select(run)
    if isinstance(evaluation, str):
      left_out.append(f"Left out: {run.path} {evaluation}.")
    else:
      chosen[run] = evaluation
  if not chosen:
    raise FieldError("runs", f"nothing to compare. {' '.join(left_out[:3])}")
  *tables, last = [
    table
    for task, members in run_groups.by_task(list(chosen)).items()
    for table in _task_tables(
      task,
      {run: chosen[run] for run in members},
      columns,
      selector,
      baseline,
      target,
      question,
    )
  ]
  return [*tables, dataclasses.replace(last, notes=(*last.notes, *left_out))]


def _task_tables(
  task: str,
  chosen: Mapping[Run, ChosenEvaluation],
  columns: Sequence[str],
  selector: EvaluationSelector,
  baseline: str | None,
  target: Target | None,
  question: str | None,
) -> list[Table]:
  groups = run_groups.group(list(chosen))
  found = () if baseline is None else references.find(groups, baseline)
  groups.sort(key=lambda group: group not in found)
  first = TaskComparison(
    task,
    groups,
    columns,
    chosen,
    questions.resolve(question, chosen),
    selector.honest,
  )
  contents = [first]
  if selector.last is not None:
    averages = {run: selector.average(chosen[run]) for run in chosen}
    contents.append(
      dataclasses.replace(first, evaluations=averages, last=selector.last)
    )
  tables = [of_evaluations.statistics() for of_evaluations in contents]
  noise = table_columns.noise_note(columns, groups, chosen)
  notes = (*run_notes(groups, chosen), *filter(None, [noise]))
  if selector.round == BEST:
    notes = (
      "Each run's best evaluation is chosen on the test data that the table "
      "shows, so its numbers look better than they are.",
      *notes,
    )
  if not found and any(any(row.marks) for row in tables[0].rows):
    # Without a table of differences, only this sentence explains the marks.
    notes = (first.question.sentence, *notes)
  above, unfit = ceiling_records.table(
    task, groups, {run: found.round for run, found in chosen.items()}
  )
  tables[0] = dataclasses.replace(tables[0], notes=(*notes, *unfit))
  if above is not None:
    tables.append(above)
  if target is not None:
    tables.append(target.table(first))
  if found:
    tables.append(_changes(first, first.best_reference_by_mean(found), found))
    tables += [c.differences(found) for c in contents]
  return [*tables, *filter(None, map(references.decompose, contents))]


def _changes(
  contents: TaskComparison, reference: Group, baselines: Sequence[Group]
) -> Table:
  """Tabulates changes of the clients below and above a baseline's mean."""
  task, chosen, score = contents.task, contents.evaluations, contents.score
  of_seeds = {run.seeds: run for run in reference.runs}
  shown = measures.changes(score)
  rows, notes = [], []
  for group in contents.groups:
    if group in baselines:
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
  caption = (
    f"{contents.clients} against {reference.label}, {_units(score)}; suffering "
    f"are those {'below' if score.higher_is_better else 'above'} its mean"
  )
  return Table(task, caption, shown, tuple(rows), tuple(notes))


def _units(score: Score) -> str:
  """Returns the units of client shares and of score changes, in words."""
  percent = ACCURACY.in_unit
  if score.in_unit == percent:
    return percent
  return f"shares {percent}, changes {score.in_unit}"


def _compare(
  before: ChosenEvaluation, after: ChosenEvaluation
) -> dict[str, float]:
  left_out = [*(before.left_out() | after.left_out())]
  old, new = (
    clients.subset(np.setdiff1d(clients.ids, left_out))
    for clients in (before.clients()[-1], after.clients()[-1])
  )
  if not np.array_equal(old.ids, new.ids):
    raise RunError(
      f"{after.run.path}: was evaluated on other clients than "
      f"{before.run.path}; leave one of them out."
    )
  return after.run.score.compare(old.score, new.score)


def run_notes(
  groups: Sequence[Group], chosen: Mapping[Run, ChosenEvaluation]
) -> tuple[str, ...]:
  """Returns sentences about rows that are not fully comparable."""
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
  notes += run_warnings.of_groups(
    [(group.label, group.runs) for group in groups],
    {run: chosen[run].round for run in members},
  )
  notes.append(
    comparison_table.marks_note({g.label: len(g.runs) for g in groups})
  )
  seeds = {tuple(run.seeds for run in group.runs) for group in groups}
  if len(seeds) > 1:
    notes.append("Not all with the same seeds.")
  differing = [
    name
    for name in run_groups.differing_settings(members)
    if name not in _EXPECTED
    and not name.startswith(HPARAM)
    and not any(f", {run_groups.short_name(name)}=" in g.label for g in groups)
  ]
  if differing:
    notes.append(f"Not the same in all rows: {', '.join(differing)}.")
  notes.append(references.weights_note(groups))
  return tuple(filter(None, notes))


COLUMNS = ("mean", "std", "worst_10", "best_10")
_MOST_SHOWN = 10


class Comparison(pd.DataFrame):
  """A data frame that prints up to ten columns, and how many more it has."""

  @property
  def _constructor(self) -> type[pd.DataFrame]:
    return pd.DataFrame

  def _preview(self) -> pd.DataFrame:
    spread = [c for c in self.columns if c.endswith("_std_over_seeds")]
    known = pd.DataFrame(self).drop(columns=["task", "method", *spread])
    return known.iloc[:, :_MOST_SHOWN]

  def _remainder_text(self) -> str:
    number = self.shape[1] - self._preview().shape[1]
    return f"{number} more columns: see .columns"

  def __repr__(self) -> str:
    with pd.option_context("display.max_columns", None):
      return f"{self._preview()!r}\n{self._remainder_text()}"

  def _repr_html_(self) -> str | None:
    with pd.option_context("display.max_columns", None):
      return f"{self._preview()._repr_html_()}<p>{self._remainder_text()}</p>"


def compare(
  runs: Iterable[Run | Place] | Place,
  baseline: str | None = None,
  columns: Sequence[str] = COLUMNS,
  *,
  round: str | int = chosen_evaluations.LAST,
  criterion: str = "mean",
  honest: bool = False,
  unfinished: bool = False,
  last: int | None = None,
  target: float | None = None,
  target_of: str = "mean",
  question: questions.Name | None = None,
) -> pd.DataFrame:
  """Compares runs: returns a row for each method, with means over its seeds.

      compare(runs)
      compare("outputs/first", baseline="fedavg", columns=["mean", "worst_10"])

  Args:
    runs: Runs, or folders of runs, or folders at any depth above them.
    baseline: A method to compare the others with, client by client.
    columns: Names of measures over clients: see `measures.NAMES`. "clients"
      stands for a column for each client, up to ten.
    round: The evaluation to compare: "last", the number of a round, or "best",
      which is each run's best by `criterion`.
    criterion: The measure by which "best" is selected.
    honest: Whether to leave out the clients that attack.
    unfinished: Whether to include unfinished runs.
    last: Adds columns NAME_last_K with means over the last K = `last`
      evaluations up to the compared one, without round 0.
    target: Adds columns with each method's costs until an evaluation reaches
      this unscaled value (0.8 for 80 %): `reached`, the number of seeds that
      reach it, and the means over these seeds of `rounds_to`, `bytes_to` (which
      all clients send and receive) and `steps_to` (local steps).
    target_of: The measure that should reach the target.
    question: The question that intervals and p-values answer: "these_clients",
      what other seeds would show for the same clients and test examples, or
      "other_clients", what other seeds and other clients like these would show.
      By default "these_clients" if all clients take part in each round, else
      "other_clients"; `attrs["notes"]` names the question.

  Returns:
    One row for each method of each task, the baseline first. The columns are
    task, method, seeds, and for each measure NAME its mean over seeds, NAME,
    and its standard deviation over seeds, NAME_std_over_seeds (missing with one
    seed); the column of a client is client_NAME. Accuracies are in percent,
    errors of regressions in units of the label; numbers are rounded as in the
    program's tables. With a baseline, columns of the same form have the changes
    from it over the common seeds: the share of the suffering clients (worse
    than the baseline's mean) that improve, the share of the others that
    degrade, the mean change of both groups, and the change of the mean. Then
    each measure has its paired difference to the baseline, NAME_difference,
    with suffixes for the interval, _low and _high, the p-value, _p, the p-value
    after Holm's correction (see `paired`), _p_holm (the interval is corrected,
    too), and the method that is the measure's baseline, _baseline; then the
    numbers of clients that win, tie and lose follow. Interval and p-values are
    missing if nothing varies. If FedAvg by numbers of examples and FedAvg with
    equal weights are both among the runs, "fedavg" is the better one for each
    measure; then NAME_from_weights and NAME_from_rule split a method's change
    from FedAvg by examples into the effects of its client weights and of its
    rule. For runs with results of `tff-fair-ceiling`, above_least_mean, _tail
    and _largest are the distances of their final training losses from the least
    ones. `attrs["notes"]` has sentences about left-out runs, differing settings
    and weights, and methods with one seed.

  Raises:
    ValueError: If an argument is not valid, or there is nothing to compare.
    RunError: If a folder holds no run, or all runs are damaged. (If only some
      are damaged, they are left out, with a note.)
  """
  selector = EvaluationSelector(
    round=round,
    criterion=criterion,
    honest=honest,
    unfinished=unfinished,
    last=last,
  )
  goal = Target.from_options(target, target_of)
  found = find(runs, with_costs=goal is not None)
  tables = build(found, columns, selector, baseline, goal, question)
  rows = comparison_table.frame(tables, is_rounded=True)
  frame = Comparison(rows.set_index(pd.Index(rows["method"], name=None)))
  frame.attrs["notes"] = [note for table in tables for note in table.notes]
  return frame
