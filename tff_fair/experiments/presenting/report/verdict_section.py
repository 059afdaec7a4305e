"""Section: what can be said of the methods, with its uncertainty."""

import math
from collections.abc import Collection, Mapping, Sequence

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
from tff_fair.experiments.analysis.groups import Group
from tff_fair.experiments.analysis.measures import Measure, Value
from tff_fair.experiments.analysis.method_tables import Contents
from tff_fair.experiments.analysis.paired import Difference
from tff_fair.experiments.presenting.report import (
  final_measures,
  html_tables,
  section,
)
from tff_fair.experiments.presenting.report.html_tables import TableColumn
from tff_fair.experiments.presenting.report.markup import Child, Markup, element
from tff_fair.experiments.presenting.report.section import Section
from tff_fair.experiments.presenting.report.task_runs import (
  MethodRuns,
  TaskRuns,
)
from tff_fair.experiments.runs.run import Run

_TITLE = "Verdict"
_NAMES = ("mean", "std", "worst_10")
_TAIL = "Worst 10\N{NO-BREAK SPACE}%"


def build(task: TaskRuns) -> Section:
  """Returns the section: sentences, and a table with differences."""
  chosen = _chosen(task)
  methods = [m for m in task.methods if all(run in chosen for run in m.runs)]
  if not methods:
    return Section(_TITLE, absence="no finished run was evaluated")
  groups = [Group(method.label, method.runs) for method in methods]
  of_task = {method.label for method in task.baselines}
  baselines = [g for g in groups if g.label in of_task] or groups[:1]
  reference = method_tables.baseline_text(baselines)
  contents = Contents(task.title, groups, _NAMES, chosen, task.question)
  rows = contents.statistics().rows
  differences = contents.differences(baselines)
  contrasts = {row.label: row for row in differences.rows}
  columns = _columns(task, rows, groups, chosen)
  return Section(
    _TITLE,
    [
      element(
        "p",
        " ".join(reversed(differences.notes))
        if len(methods) > 1
        else _single_method(task, rows[0]),
        class_="conclusion",
      ),
      # What a reader has to know before the numbers.
      section.bullets(run_tables.run_notes(groups, chosen), "caution"),
      _sentences(task, rows, groups),
      html_tables.draw(
        _caption(task, len(methods)),
        methods,
        [
          *columns,
          *_difference_columns(
            methods,
            {group.label for group in baselines},
            [task.measures[name] for name in _NAMES],
            contrasts,
          ),
        ],
      ),
      _explanation(
        task,
        reference,
        contrasts,
        has_marks=any(
          mark for place in range(len(_NAMES)) for mark in _marks(rows, place)
        ),
        has_noise=len(columns) > len(_NAMES),
      ),
      _parts(task, contents),
      section.without(
        task,
        {method.number for method in methods},
        "they have runs without an evaluation",
      ),
    ],
  )


def _parts(task: TaskRuns, contents: Contents) -> Markup | None:
  """Returns the table of what methods owe to weights and to their rules."""
  found = references.parts(contents)
  if found is None:
    return None
  rows = {row.label: row for row in found.rows}
  methods = [method for method in task.methods if method.label in rows]
  columns = [
    html_tables.column(
      measure,
      [
        cell
        for method in methods
        if isinstance(cell := rows[method.label].cells[place], Value)
      ],
    )
    for place, measure in enumerate(found.measures.values())
  ]
  caption = f"{found.caption[0].upper()}{found.caption[1:]}"
  return html_tables.draw(caption, methods, columns)


def _chosen(task: TaskRuns) -> dict[Run, ChosenEvaluation]:
  selector = EvaluationSelector(unfinished=True)
  found = {run: selector.of(run) for run in task.runs}
  return {run: e for run, e in found.items() if isinstance(e, ChosenEvaluation)}


def _single_method(task: TaskRuns, row: Row) -> str:
  """Returns in sentences what the only method reaches."""
  mean, _, worst = (cell.mean for cell in row.cells if isinstance(cell, Value))
  of_tail = final_measures.tail_clients(task, 10)
  return (
    f"{row.label} reaches a mean {task.score.noun} of "
    f"{_number(task, mean)}, and {_number(task, worst)} for the worst 10 % "
    f"({of_tail}). No other method is here to compare it with."
  )


def _number(task: TaskRuns, value: float) -> str:
  sign = task.score.sign.replace(" ", "\N{NO-BREAK SPACE}")
  return f"{value:.{task.score.digits}f}{sign}"


def _marks(rows: Sequence[Row], place: int) -> list[int | None]:
  """Returns the marks of a column; none where no method stands out."""
  tried = [
    row for row in rows if row.num_seeds >= comparison_table.NEEDED_SEEDS
  ]
  if all(row.marks[place] == comparison_table.BEST for row in tried):
    return [None] * len(rows)
  return [row.marks[place] for row in rows]


def _caption(task: TaskRuns, num_methods: int) -> str:
  tail = final_measures.tail_clients(task, 10)
  of_tail = f"; worst 10 %: {tail}" if tail else ""
  differences = "; Δ: difference to the baseline" if num_methods > 1 else ""
  score = task.score
  return (
    f"Test {score.noun} over clients{score.in_brackets}{of_tail}{differences}"
  )


def _columns(
  task: TaskRuns,
  rows: Sequence[Row],
  groups: Sequence[Group],
  chosen: Mapping[Run, ChosenEvaluation],
) -> list[TableColumn]:
  """Returns the columns of the measures; after the std, the noise in it."""
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


def _sentences(
  task: TaskRuns, rows: Sequence[Row], groups: Sequence[Group]
) -> Markup | None:
  """Returns which methods are best, for each measure; None if that is open."""
  parts = []
  all_words = (f"Mean {task.score.noun}", "Std over clients", _TAIL)
  for place, (name, words) in enumerate(zip(_NAMES, all_words, strict=True)):
    best = [row for row in rows if row.marks[place] == comparison_table.BEST]
    if best:
      said = _best(task, name, place, best, groups)
      parts += [element("dt", words), element("dd", said)]
  return element("dl", parts, class_="verdict") if parts else None


def _best(
  task: TaskRuns,
  name: str,
  place: int,
  best: Sequence[Row],
  groups: Sequence[Group],
) -> list[Child]:
  measure = task.measures[name]
  values = {row.label: Value(*row.cells[place]) for row in best}
  first = min(values, key=lambda n: measures.sort_key(measure, values[n].mean))
  others = [label for label in values if label != first]
  said: list[Child] = [
    first if others else element("strong", first),
    f" {_number(task, values[first].mean)}. ",
  ]
  if not others:
    unknown = ", ".join(_not_compared(first, groups))
    said.append(
      f"All other methods clearly differ from it, but for {unknown}: too few "
      "seeds in common."
      if unknown
      else "All other methods clearly differ from it."
    )
  elif len(values) == len(groups):
    said.append("No method clearly differs from it.")
  else:
    said.append(f"No clear difference to {', '.join(others)}.")
  return said


def _not_compared(best: str, groups: Sequence[Group]) -> list[str]:
  """Returns the methods with too few seeds in common with the best."""
  seeds = {group.label: {run.seeds for run in group.runs} for group in groups}
  return [
    label
    for label, found in seeds.items()
    if len(found & seeds[best]) < comparison_table.NEEDED_SEEDS
  ]


def _explanation(
  task: TaskRuns,
  baseline: str,
  contrasts: Mapping[str, Row],
  *,
  has_marks: bool,
  has_noise: bool,
) -> list[Markup]:
  explanation: list[Child] = [
    "At the last evaluation of each run; each client counts once.",
    " Mean ± sample standard deviation over seeds." if task.has_seeds else None,
    " Bold: the best, and all methods without a clear difference to it. "
    "Underlined: second best, and clearly different from the best."
    if has_marks
    else None,
  ]
  notes = [section.note(explanation)]
  if has_noise:
    notes.append(section.note(table_columns.NOISE_EXPLANATION))
  if contrasts:
    confidence = f"{100 * paired.CONFIDENCE:.0f}\N{NO-BREAK SPACE}%"
    notes.append(
      section.note(
        f"Δ: the method minus {baseline}, over the same seeds and clients, "
        f"with its {confidence} interval over {task.question.about}. Holm’s "
        "correction for the "
        "methods is in the interval, too: a difference is clear where it "
        f"leaves out 0, that is where p < {comparison_table.LEVEL:.2g}; others "
        "are grey. Clients: how many are better off, as well off, and worse "
        f"off than with {baseline}.",
        " Bold has a correction of its own, since it compares with the best."
        if has_marks
        else None,
      )
    )
  return notes


# Columns of the differences to a baseline, each interval drawn.


_WIDTH, _HEIGHT, _EDGE = 120, 10, 4  # Of the drawing of an interval.


def _difference_columns(
  methods: Sequence[MethodRuns],
  baselines: Collection[str],
  shown: Sequence[Measure],
  rows: Mapping[str, Row],
) -> list[TableColumn]:
  """Returns the columns: a difference for each measure, and the clients.

  `rows` has both by the label of a method; a method may have none.
  """
  if not rows:
    return []
  columns = [
    _differences(methods, baselines, measure, place, rows)
    for place, measure in enumerate(shown)
  ]
  records = [
    _record(rows[method.label].cells[-1])
    if method.label in rows
    else html_tables.cell(math.nan, "–", class_="quiet-cell")
    for method in methods
  ]
  return [
    *columns,
    TableColumn("Clients better, same, worse", "descending", records),
  ]


def _differences(
  methods: Sequence[MethodRuns],
  baselines: Collection[str],
  measure: Measure,
  place: int,
  rows: Mapping[str, Row],
) -> TableColumn:
  found = {
    label: cell
    for label, row in rows.items()
    if isinstance(cell := row.cells[place], Contrast)
  }
  ends = [
    end
    for d in (contrast.difference for contrast in found.values())
    for end in (d.estimate, d.low, d.high)
  ]
  # A scale that has 0 and all intervals.
  known = [0.0, *filter(math.isfinite, ends)]
  low, high = min(known), max(known)
  cells = [
    _difference(method, measure, found[method.label], low, high)
    if method.label in found
    else _nothing(method, baselines)
    for method in methods
  ]
  return TableColumn(
    f"Δ\N{NO-BREAK SPACE}{html_tables.head(measure)}",
    html_tables.first_order(measure),
    cells,
  )


def _difference(
  method: MethodRuns,
  measure: Measure,
  contrast: Contrast,
  low: float,
  high: float,
) -> Markup:
  found = contrast.difference
  text = html_tables.with_minus(
    comparison_table.difference_text(measure, found)
  )
  estimate, bracket, interval = text.partition(" [")
  p_value = comparison_table.probability_text(contrast.p_holm)
  is_told = contrast.p_holm < comparison_table.LEVEL
  return html_tables.cell(
    found.estimate,
    element("span", estimate, class_="mean"),
    element("small", bracket, interval) if interval else None,
    element("span", f" (p {p_value})", class_="unseen") if p_value else None,
    _drawing(method, found, low, high)
    if math.isfinite(found.estimate)
    else None,
    class_="difference" if is_told else "difference untold",
  )


def _drawing(
  method: MethodRuns, found: Difference, low: float, high: float
) -> Markup:
  """Draws an interval below a line at 0."""

  def place(value: float) -> str:
    share = (value - low) / (high - low) if high > low else 0.5
    return f"{_EDGE + share * (_WIDTH - 2 * _EDGE):.1f}"

  middle = _HEIGHT / 2
  interval = (
    element(
      "path",
      d=f"M{place(found.low)} {middle}H{place(found.high)}",
      class_="reach",
    )
    if math.isfinite(found.low)
    else None
  )
  return element(
    "svg",
    element("path", d=f"M{place(0)} 0V{_HEIGHT}", class_="zero"),
    interval,
    element(
      "path", d=f"M{place(found.estimate)} {middle}h0", class_="estimate"
    ),
    viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
    width=_WIDTH,
    height=_HEIGHT,
    class_=f"interval c{method.style.color}",
    aria_hidden="true",
  )


def _record(record: object) -> Markup:
  assert isinstance(record, Wins)
  return html_tables.cell(
    record.wins - record.losses,
    [element("span", f"{count:,}") for count in record],
    class_="record",
  )


def _nothing(method: MethodRuns, baselines: Collection[str]) -> Markup:
  """Returns the cell of a baseline, or of a method without a common seed."""
  is_baseline = method.label in baselines
  return html_tables.cell(
    0.0 if is_baseline else math.nan,
    "baseline" if is_baseline else "no common seed",
    class_="quiet-cell",
  )
