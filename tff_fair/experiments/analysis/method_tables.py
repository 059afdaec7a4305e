"""Builds tables of methods: measures, differences from a baseline, costs."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tff_fair.declared import FieldError
from tff_fair.experiments.analysis import (
  chosen_evaluations,
  client_results,
  columns as table_columns,
  comparison_table,
  measures,
  paired,
  questions,
  run_groups,
)
from tff_fair.experiments.analysis.chosen_evaluations import ChosenEvaluation
from tff_fair.experiments.analysis.client_results import ResultsBySeed
from tff_fair.experiments.analysis.columns import ComparedColumn
from tff_fair.experiments.analysis.comparison_table import (
  RECORD,
  Contrast,
  Row,
  Table,
)
from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.analysis.questions import Question
from tff_fair.experiments.analysis.run_groups import Group
from tff_fair.experiments.runs.run import ROUND, Run
from tff_fair.experiments.spec.scores import Score
from tff_fair.metrics.intervals import LEVEL

_RECORD = Measure("Wins/ties/losses", True, digits=0)


@dataclasses.dataclass(frozen=True)
class TaskComparison:
  """Builds the tables that compare methods on one task."""

  task: str  # The name, with the options and the number of clients.
  groups: Sequence[Group]
  names: Sequence[str]  # The names of the columns, as the user requests them.
  evaluations: Mapping[Run, ChosenEvaluation]
  question: Question
  honest: bool = False  # Whether attackers are left out.
  last: int | None = None  # The number of averaged evaluations; None for one.

  @property
  def clients(self) -> str:
    """The words for the compared clients in captions."""
    return "honest clients" if self.honest else "clients"

  def statistics(self) -> Table:
    """Returns a table of each method's measures, with means over its seeds."""
    cells, found_marks = [], []
    for column in self.columns.values():
      values = [
        measures.over_seeds(
          column.measure,
          [column.evaluate(self.evaluations[run]) for run in group.runs],
        )
        for group in self.groups
      ]
      cells.append(values)
      found_marks.append(
        [None] * len(values)
        if column.measure.statistic is None
        else comparison_table.marks_of_column(
          column.measure,
          [column.results(method) for method in self._results_by_seed],
          [value.mean for value in values],
          self.question.name,
        )
      )
    rows = [
      Row(group.label, len(group.runs), of_cells, of_marks)
      for group, of_cells, of_marks in zip(
        self.groups,
        zip(*cells, strict=True),
        zip(*found_marks, strict=True),
        strict=True,
      )
    ]
    caption = (
      f"test {self.score.noun} over {self.clients} {self.score.in_unit}"
      f"{self._tails()}"
    )
    return Table(
      self.task,
      f"{self._caption_prefix()}{caption}",
      {f"{n}{self.suffix}": c.measure for n, c in self.columns.items()},
      tuple(rows),
      (),
    )

  def best_reference(
    self, references: Sequence[Group], column: ComparedColumn
  ) -> Group:
    """Returns the group in `references` with the best mean of `column`."""

    def key(group: Group) -> float:
      values = [column.evaluate(self.evaluations[run]) for run in group.runs]
      return measures.sort_key(column.measure, float(np.mean(values)))

    return min(references, key=key)

  def best_reference_by_mean(self, references: Sequence[Group]) -> Group:
    """Returns the group in `references` with the best mean score of clients."""
    mean = measures.by_name(self.score)["mean"]
    return self.best_reference(references, table_columns.of_measure(mean))

  def differences(self, references: Sequence[Group]) -> Table:
    """Returns a table of methods' paired differences from a baseline.

    Each column compares with the best of `references`. A method is left out
    unless it has a seed in common with each of them.
    """
    of_groups = list(zip(self.groups, self._results_by_seed, strict=True))
    of_references = {g.label: m for g, m in of_groups if g in references}
    others = [
      (group, method)
      for group, method in of_groups
      if group not in references
      and all(method.keys() & found.keys() for found in of_references.values())
    ]
    compared = {n: c for n, c in self.columns.items() if c.measure.statistic}
    chosen = {
      n: self.best_reference(references, c).label for n, c in compared.items()
    }
    contrasts = [
      comparison_table.contrasts(
        column.measure,
        [column.results(method) for _, method in others],
        column.results(of_references[chosen[name]]),
        chosen[name],
        self.question.name,
      )
      for name, column in compared.items()
    ]
    baseline = of_references[self.best_reference_by_mean(references).label]
    rows = []
    for (group, method), *cells in zip(others, *contrasts, strict=True):
      row = (*cells, comparison_table.count_wins(method, baseline, self.score))
      num_seeds = min(
        len(method.keys() & r.keys()) for r in of_references.values()
      )
      rows.append(Row(group.label, num_seeds, row, (None,) * len(row)))
    notes = [
      self.question.sentence if rows else "",
      _identity_note(others, of_references),
      interval_note({r.label: r.num_seeds for r in rows}, self.question),
      self._choice_note(references, compared, chosen),
      verdict(
        [c.measure for c in compared.values()],
        rows,
        baseline_text(references),
        self.question,
      ),
    ]
    shown = {
      f"{name}{self.suffix}_difference": column.measure
      for name, column in compared.items()
    }
    return Table(
      self.task,
      f"{self._caption_prefix()}{self.clients} against "
      f"{baseline_text(references)}, "
      f"{self.score.in_unit}: paired differences{self._tails()}; "
      f"[{paired.CONFIDENCE:.0%} intervals] over {self.question.population}, "
      "and p, "
      "both after Holm's correction for the methods; wins, ties, losses by "
      "client",
      {**shown, f"{RECORD}{self.suffix}": _RECORD},
      tuple(rows),
      tuple(filter(None, notes)),
    )

  def _choice_note(
    self,
    references: Sequence[Group],
    compared: Mapping[str, ComparedColumn],
    chosen: Mapping[str, str],
  ) -> str:
    """Returns a sentence on each column's baseline; "" if there is only one."""
    if len(references) < 2:
      return ""
    titles: dict[str, list[str]] = {}
    for name, label in chosen.items():
      titles.setdefault(label, []).append(compared[name].measure.title)
    found = "; ".join(f"{n} ({', '.join(t)})" for n, t in titles.items())
    return (
      f"Baseline: {found}, the better by the mean over seeds of these same "
      "results, a choice that favours the baseline."
    )

  @functools.cached_property
  def score(self) -> Score:
    """The runs' common score, with enough decimals to show its values."""
    return run_groups.common_score(
      [run for group in self.groups for run in group.runs]
    )

  @functools.cached_property
  def columns(self) -> dict[str, ComparedColumn]:
    """The columns of the tables, by their names in data frames."""
    evaluated = [
      self.evaluations[r] for group in self.groups for r in group.runs
    ]
    return table_columns.build(self.names, evaluated, self.task, self.score)

  @functools.cached_property
  def _results_by_seed(self) -> list[ResultsBySeed]:
    return [
      {run.seeds: self.evaluations[run].clients() for run in group.runs}
      for group in self.groups
    ]

  @property
  def suffix(self) -> str:
    """The suffix of column names: "_last_K" for a mean over K evaluations."""
    return "" if self.last is None else f"_last_{self.last}"

  def _caption_prefix(self) -> str:
    if self.last is None:
      return ""
    return f"mean of the last {self.last} evaluations of each run: "

  def _tails(self) -> str:
    sizes = {
      evaluation.ids.size
      for method in self._results_by_seed
      for of_seed in method.values()
      for evaluation in of_seed
    }
    if len(sizes) > 1:
      return ""  # The number of attackers may differ between runs.
    text = measures.tail_sizes(self.names, sizes.pop())
    return f"; {text}" if text else ""


def verdict(
  columns: Sequence[Measure],
  rows: Sequence[Row],
  baseline: str,
  question: Question,
) -> str:
  """Returns sentences that say which methods clearly differ from a baseline."""
  if not rows:
    return f"No method has a seed in common with {baseline}."
  found = []
  for row in rows:
    ways: dict[tuple[str, str], list[str]] = {}
    for measure, cell in zip(columns, row.cells, strict=False):
      if isinstance(cell, Contrast) and cell.p_holm < LEVEL:
        rises = cell.difference.estimate > 0
        way = "better" if rises is measure.higher_is_better else "worse"
        ways.setdefault((way, cell.baseline), []).append(measure.title)
    found += [
      f"{row.label} is clearly {way} than {than}: {', '.join(titles)}."
      for (way, than), titles in sorted(ways.items())
    ]
  if found:
    return " ".join(found)
  return (
    f"No method clearly differs from {baseline} in any column: "
    f"{question.scope}, these runs give no reason for another one."
  )


def interval_note(num_seeds: Mapping[str, int], question: Question) -> str:
  """Returns a sentence on the intervals of methods with one seed, or ""."""
  single_seed_labels = [label for label, n in num_seeds.items() if n == 1]
  if not single_seed_labels:
    return ""
  whose = (
    ""
    if len(single_seed_labels) == len(num_seeds)
    else f" ({', '.join(single_seed_labels)})"
  )
  if question.name == questions.THESE_CLIENTS:
    return (
      f"1 seed{whose}: it does not show what other seeds would give, so "
      f"there is no interval; question={questions.OTHER_CLIENTS} has one over "
      "clients."
    )
  return (
    f"1 seed{whose}: the interval is only over clients, the spread over seeds "
    "is unknown."
  )


def _identity_note(
  methods: Iterable[tuple[Group, ResultsBySeed]],
  baselines: Mapping[str, ResultsBySeed],
) -> str:
  """Returns a sentence on methods whose results equal a baseline's, or ""."""
  found = [
    f"“{group.label}” and “{label}”"
    for group, method in methods
    for label, baseline in baselines.items()
    if client_results.are_identical(method, baseline)
  ]
  if not found:
    return ""
  return (
    f"Identical results for each client and seed: {'; '.join(found)}. Nothing "
    "differs, so there is no interval."
  )


def baseline_text(references: Sequence[Group]) -> str:
  """Returns the baseline's label, or "the better of" several labels."""
  labels = [group.label for group in references]
  if len(labels) == 1:
    return labels[0]
  return f"the better of {labels[0]} and {'; '.join(labels[1:])}"


# The tables of a run from which `Target` takes its costs.
COST_TABLES = ("rounds", "costs")
_LOCAL_STEPS = "client_work/train/num_batches"  # A column of metrics.csv.

_USUAL_TARGET = "mean"
_COST = Measure("", False, 1.0, 0, missing="not reached")
_COST_COLUMNS: Mapping[str, Measure] = {
  "reached": Measure("Seeds that reach it", True, 1.0, 0),
  "rounds_to": _COST._replace(title="Rounds", digits=1),
  "bytes_to": _COST._replace(title="Bytes"),
  "steps_to": _COST._replace(title="Local steps"),
}


class Target(NamedTuple):
  """A value that a measure should reach; tabulates the costs until it does."""

  value: float
  measure_name: str = _USUAL_TARGET

  @classmethod
  def from_options(cls, value: float | None, of: str) -> "Target | None":
    """Returns the target of a user's options; None if `value` is None."""
    measures.check(of, "target_of")
    if value is not None:
      return cls(value, of)
    if of != _USUAL_TARGET:
      raise FieldError(
        "target_of",
        "has no effect without a target; give one, or leave it out.",
        value=of,
      )
    return None

  def _measure(self, contents: TaskComparison) -> Measure:
    task = contents.task
    found = measures.find(self.measure_name, contents.score, task, "target_of")
    if not found.lowest <= self.value <= found.highest:
      raise FieldError(
        "target",
        f"{self.measure_name} of {task} is from {found.lowest:g} to "
        f"{found.highest:g}.",
        value=self.value,
      )
    return found

  def table(self, contents: TaskComparison) -> Table:
    """Returns each method's mean costs over the seeds that reach the target."""
    measure = self._measure(contents)
    rows = []
    for group in contents.groups:
      costs = [
        self._costs(run, measure, honest=contents.honest) for run in group.runs
      ]
      reached = [cost for cost in costs if cost is not None]
      columns = zip(*reached, strict=True) if reached else [[math.nan]] * 3
      values = (
        measures.Value(len(reached), None),
        *(
          measures.over_seeds(shown, list(column))
          for shown, column in zip(
            list(_COST_COLUMNS.values())[1:], columns, strict=True
          )
        ),
      )
      rows.append(Row(group.label, len(group.runs), values, (None,) * 4))
    text = measures.value_text(
      measure, measures.Value(measure.scale * self.value, None)
    )
    caption = (
      f"all that clients send, receive and compute until {measure.words} is "
      f"{text}{measure.sign} or better "
      "after a round that was evaluated, over the seeds that reach it"
    )
    return Table(contents.task, caption, _COST_COLUMNS, tuple(rows), ())

  def _costs(
    self, run: Run, measure: Measure, *, honest: bool
  ) -> tuple[float, float, float] | None:
    """Returns a run's rounds, bytes and steps to the target; None if missed."""
    values = chosen_evaluations.measure_over_rounds(run, measure, honest=honest)
    is_there = (
      values >= self.value if measure.higher_is_better else values <= self.value
    )
    numbers = values.index[is_there & (values.index > 0)]
    if numbers.empty:
      return None
    last = int(numbers.min())
    num_bytes = steps = math.nan
    if (costs := run.costs) is not None:
      until = costs[costs[ROUND] <= last]
      num_bytes = float((until["bytes_down"] + until["bytes_up"]).sum())
    if _LOCAL_STEPS in run.rounds:
      of_rounds = run.rounds[run.rounds[ROUND] <= last]
      steps = float(of_rounds[_LOCAL_STEPS].astype(float).sum())
    return last, num_bytes, steps
