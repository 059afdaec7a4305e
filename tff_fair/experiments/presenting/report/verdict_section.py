"""Section: conclusions about the methods, with their uncertainty."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tff_fair.experiments import number_text
from tff_fair.experiments.analysis import (
  columns as table_columns,
  compare as run_tables,
  comparison_table,
  measures,
  method_tables,
  paired,
  references,
)
from tff_fair.experiments.analysis.chosen_evaluations import (
  ChosenEvaluation,
  EvaluationSelector,
)
from tff_fair.experiments.analysis.comparison_table import Contrast, Row, Wins
from tff_fair.experiments.analysis.measures import Measure, Value
from tff_fair.experiments.analysis.method_tables import TaskComparison
from tff_fair.experiments.analysis.paired import Difference
from tff_fair.experiments.analysis.run_groups import Group
from tff_fair.experiments.presenting.report import (
  final_measures,
  html_tables,
  section,
)
from tff_fair.experiments.presenting.report.html_tables import (
  Cell,
  Column,
  Head,
)
from tff_fair.experiments.presenting.report.task_runs import Method, TaskRuns
from tff_fair.experiments.runs.run import Run
from tff_fair.metrics.intervals import LEVEL

_TITLE = "Verdict"
_NAMES = ("mean", "std", "worst_10")
_TAIL = "Worst 10\N{NO-BREAK SPACE}%"


def build(task: TaskRuns) -> section.Section:
  """Returns the section: sentences, and a table with differences."""
  chosen = _select_evaluations(task)
  methods = [m for m in task.methods if all(run in chosen for run in m.runs)]
  if not methods:
    return section.Section(_TITLE, absence="no finished run was evaluated")
  groups = [Group(method.label, method.runs) for method in methods]
  of_task = {method.label for method in task.baselines}
  baselines = [g for g in groups if g.label in of_task] or groups[:1]
  contents = TaskComparison(task.title, groups, _NAMES, chosen, task.question)
  rows = contents.statistics().rows
  differences = contents.differences(baselines)
  contrasts = {row.label: row for row in differences.rows}
  columns = _columns(task, rows, groups, chosen)
  has_noise = len(columns) > len(_NAMES)
  columns += _difference_columns(
    methods, {group.label for group in baselines}, task, contrasts
  )
  tail = final_measures.tail_clients(task, 10)
  caption = f"Test {task.score.noun} over clients{task.score.in_brackets}"
  caption += f"; worst 10 %: {tail}" if tail else ""
  if len(methods) > 1:
    conclusion = " ".join(reversed(differences.notes))
    caption += "; Δ: difference to the baseline"
  else:
    conclusion = _single_method(task, rows[0])
  return section.build(
    _TITLE,
    "verdict",
    task,
    conclusion=conclusion,
    notes=[*run_tables.run_notes(groups, chosen)],
    best=_sentences(task, rows, groups),
    table=html_tables.of_methods(caption, methods, columns),
    has_marks=any(any(_marks(rows, place)) for place in range(len(_NAMES))),
    noise=table_columns.NOISE_EXPLANATION if has_noise else "",
    baseline=method_tables.baseline_text(baselines) if contrasts else "",
    confidence=f"{100 * paired.CONFIDENCE:.0f}",
    level=f"{LEVEL:.2g}",
    parts=_decomposition_table(task, contents),
    shown={method.number for method in methods},
  )


def _decomposition_table(
  task: TaskRuns, contents: TaskComparison
) -> html_tables.Table | None:
  """Returns a table of gains over FedAvg, divided between weights and rule."""
  found = references.decompose(contents)
  if found is None:
    return None
  rows = {row.label: row for row in found.rows}
  methods = [method for method in task.methods if method.label in rows]
  columns = []
  for place, measure in enumerate(found.measures.values()):
    cells = [rows[method.label].cells[place] for method in methods]
    values = [cell for cell in cells if isinstance(cell, Value)]
    columns.append(html_tables.column(measure, values))
  caption = f"{found.caption[0].upper()}{found.caption[1:]}"
  return html_tables.of_methods(caption, methods, columns)


def _select_evaluations(task: TaskRuns) -> dict[Run, ChosenEvaluation]:
  selector = EvaluationSelector(unfinished=True)
  found = {run: selector.select(run) for run in task.runs}
  return {run: e for run, e in found.items() if isinstance(e, ChosenEvaluation)}


def _single_method(task: TaskRuns, row: Row) -> str:
  mean, _, worst = (cell.mean for cell in row.cells if isinstance(cell, Value))
  of_tail = final_measures.tail_clients(task, 10)
  return (
    f"{row.label} reaches a mean {task.score.noun} of {_number(task, mean)}, "
    f"and {_number(task, worst)} for the worst 10 % ({of_tail}). There is no "
    "other method to compare it with."
  )


def _number(task: TaskRuns, value: float) -> str:
  sign = task.score.sign.replace(" ", "\N{NO-BREAK SPACE}")
  return f"{value:.{task.score.digits}f}{sign}"


def _marks(rows: Sequence[Row], place: int) -> list[int | None]:
  """Returns the marks in column `place`; all None if every row is best."""
  tried = [
    row for row in rows if row.num_seeds >= comparison_table.NEEDED_SEEDS
  ]
  if all(row.marks[place] == comparison_table.BEST for row in tried):
    return [None] * len(rows)
  return [row.marks[place] for row in rows]


def _columns(
  task: TaskRuns,
  rows: Sequence[Row],
  groups: Sequence[Group],
  chosen: Mapping[Run, ChosenEvaluation],
) -> list[Column]:
  """Returns the columns of measures, with the share of noise after the std."""
  columns = [
    html_tables.column(
      task.measures[name],
      [Value(*row.cells[place]) for row in rows],
      _marks(rows, place),
    )
    for place, name in enumerate(_NAMES)
  ]
  shares = [table_columns.noise_over_seeds(group, chosen) for group in groups]
  if not all(math.isnan(share.mean) for share in shares):
    noise = html_tables.column(table_columns.NOISE_MEASURE, shares)
    columns.insert(1 + _NAMES.index("std"), noise)
  return columns


class _Best(NamedTuple):
  """The parts of a sentence about the best methods by one measure."""

  words: str
  name: str
  is_clear_winner: bool  # Whether no other method is also best.
  value: str
  rest: str


def _sentences(
  task: TaskRuns, rows: Sequence[Row], groups: Sequence[Group]
) -> list[_Best]:
  """Returns parts of a sentence per measure; omits measures without a best."""
  found = []
  all_words = (f"Mean {task.score.noun}", "Std over clients", _TAIL)
  for place, (name, words) in enumerate(zip(_NAMES, all_words, strict=True)):
    measure = task.measures[name]
    values = {
      row.label: Value(*row.cells[place]).mean
      for row in rows
      if row.marks[place] == comparison_table.BEST
    }
    if values:
      first = min(values, key=lambda n: measures.sort_key(measure, values[n]))
      others = [label for label in values if label != first]
      unknown = _not_compared(first, groups)
      if not others:
        rest = "All other methods clearly differ from it"
        if unknown:
          rest += f", except {', '.join(unknown)}: too few seeds in common"
      elif len(values) == len(groups):
        rest = "No method clearly differs from it"
      else:
        rest = f"No clear difference to {', '.join(others)}"
      value = _number(task, values[first])
      found.append(_Best(words, first, not others, value, rest))
  return found


def _not_compared(best: str, groups: Sequence[Group]) -> list[str]:
  """Returns the methods with too few seeds in common with the best."""
  seeds = {group.label: {run.seeds for run in group.runs} for group in groups}
  return [
    label
    for label, found in seeds.items()
    if len(found & seeds[best]) < comparison_table.NEEDED_SEEDS
  ]


_WIDTH, _EDGE = 120, 4  # The width and margin of an interval's drawing.


class _Interval(NamedTuple):
  """Pixel positions of 0, an interval's ends and its estimate in a drawing."""

  zero: str
  low: str
  high: str
  estimate: str
  color: int


def _difference_columns(
  methods: Sequence[Method],
  baselines: Collection[str],
  task: TaskRuns,
  rows: Mapping[str, Row],
) -> list[Column]:
  """Returns a column of differences per measure, and one of counts of wins."""
  if not rows:
    return []
  columns = [
    _differences(methods, baselines, task.measures[name], place, rows)
    for place, name in enumerate(_NAMES)
  ]
  records = []
  for method in methods:
    record = rows[method.label].cells[-1] if method.label in rows else None
    if isinstance(record, Wins):
      value = record.wins - record.losses
      records.append(Cell(value, counts=record, class_="record"))
    else:
      records.append(Cell(math.nan, "–", class_="quiet-cell"))
  head = Head("Clients better, same, worse", "descending")
  return [*columns, Column(head, records)]


def _differences(
  methods: Sequence[Method],
  baselines: Collection[str],
  measure: Measure,
  place: int,
  rows: Mapping[str, Row],
) -> Column:
  found = {
    label: cell
    for label, row in rows.items()
    if isinstance(cell := row.cells[place], Contrast)
  }
  known = [0.0]  # The scale includes 0 and all intervals.
  for contrast in found.values():
    d = contrast.difference
    known += filter(math.isfinite, (d.estimate, d.low, d.high))
  cells = []
  for method in methods:
    if method.label in found:
      contrast = found[method.label]
      drawn = _interval(method, contrast.difference, min(known), max(known))
      cells.append(_difference(measure, contrast, drawn))
    elif method.label in baselines:
      cells.append(Cell(0.0, "baseline", class_="quiet-cell"))
    else:
      cells.append(Cell(math.nan, "no common seed", class_="quiet-cell"))
  return Column(html_tables.head(measure, "Δ\N{NO-BREAK SPACE}"), cells)


def _difference(
  measure: Measure, contrast: Contrast, drawn: _Interval | None
) -> Cell:
  found = contrast.difference
  text = measures.difference_text(
    measure, found.estimate, found.low, found.high
  )
  estimate, bracket, interval = number_text.with_minus(text).partition(" [")
  p_value = number_text.p_value(contrast.p_holm)
  is_significant = contrast.p_holm < LEVEL
  return Cell(
    found.estimate,
    estimate,
    f"{bracket}{interval}",
    unseen=f"p {p_value}" if p_value else "",
    class_="difference" if is_significant else "difference untold",
    is_mean=True,
    interval=drawn,
  )


def _interval(
  method: Method, found: Difference, low: float, high: float
) -> _Interval | None:
  """Returns the drawing of an interval; None if the estimate is unknown."""

  def place(value: float) -> str:
    share = (value - low) / (high - low) if high > low else 0.5
    return f"{_EDGE + share * (_WIDTH - 2 * _EDGE):.1f}"

  if not math.isfinite(found.estimate):
    return None
  is_known = math.isfinite(found.low)
  ends = (place(found.low), place(found.high)) if is_known else ("", "")
  return _Interval(place(0), *ends, place(found.estimate), method.style.color)
