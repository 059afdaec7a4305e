"""Formats comparison tables of runs as text, CSV, Markdown and LaTeX."""

import math
import re
import textwrap
from collections.abc import Callable, Sequence

from tff_fair import escaping
from tff_fair.experiments.analysis import comparison_table
from tff_fair.experiments.analysis.comparison_table import (
  BEST,
  Cell,
  Table,
  cell_text,
)
from tff_fair.experiments.analysis.measures import Measure, Value, value_text
from tff_fair.experiments.texts import layout
from tff_fair.files import csv_cells

# In text, the best methods of a column have two stars, and the second best has
# one; Markdown uses bold and italics, LaTeX uses bold and underlines.
Escape = Callable[[str], str]
Show = Callable[[Measure, Cell], str]

_METHOD, _SEEDS = "Method", "Seeds"
_WIDTH = 100  # The width of captions in plain text.
_OVER_SEEDS = "mean ± standard deviation over seeds"


def csv(tables: Sequence[Table]) -> str:
  """Returns all tables as one CSV table, with unrounded numbers."""
  return csv_cells.csv_text(comparison_table.frame(tables))


def text(tables: Sequence[Table]) -> str:
  """Returns the tables for a terminal."""
  return "\n\n".join(_text(table) for table in tables)


def markdown(tables: Sequence[Table]) -> str:
  """Returns the tables as Markdown with aligned columns."""
  return "\n\n".join(_markdown(table) for table in tables) + "\n"


def _text(table: Table) -> str:
  cells = marked_cells(
    table, escaping.line, (lambda c: f"{c} **", lambda c: f"{c} * ")
  )
  columns = [list(column) for column in zip(*cells, strict=True)]
  for column in columns:
    # If a column has stars, pad the cells without stars.
    starred = [cell.rstrip().endswith("*") for cell in column]
    if any(starred):
      column[:] = [
        cell if has_star else f"{cell}   "
        for cell, has_star in zip(column, starred, strict=True)
      ]
  lines = layout.align(list(zip(*columns, strict=True)), gap=2)
  legend = ["** not separable from the best, * second best"]
  legend = legend if has_marks(table) else []
  body = ["".join(line).rstrip() for line in lines]
  title = [
    part
    for line in caption(table)
    for part in textwrap.wrap(
      escaping.line(line), _WIDTH, break_on_hyphens=False
    )
  ]
  notes = [escaping.line(note) for note in table.notes]
  return "\n".join([*title, *legend, "", *body, *_spaced(notes)])


def _markdown(table: Table) -> str:
  cells = marked_cells(
    table, escaping.markdown, (lambda c: f"**{c}**", lambda c: f"*{c}*")
  )
  head, *body = layout.align(cells)
  rule = ["-" * len(head[0]), *("-" * (len(c) - 1) + ":" for c in head[1:])]
  lines = [f"| {' | '.join(line)} |" for line in (head, rule, *body)]
  legend = " **Not separable from the best**, *second best*."
  legend = legend if has_marks(table) else ""
  title = " ".join(map(escaping.markdown, caption(table)))
  notes = [escaping.markdown(note) for note in table.notes]
  return "\n".join([f"{title}.{legend}", "", *lines, *_spaced(notes)])


def marked_cells(
  table: Table,
  escape: Escape,
  marks: tuple[Escape, Escape],
  show: Show | None = None,
) -> list[list[str]]:
  """Returns a table's head and rows as strings.

  `marks` are applied to the best and to the second-best cells.
  """
  shown = show or (lambda m, c: escape(cell_text(m, c)))
  lines = [[escape(_METHOD), _SEEDS]]
  lines[0] += [escape(measure.title) for measure in table.measures.values()]
  for row in table.rows:
    cells = []
    for measure, cell, mark in zip(
      table.measures.values(), row.cells, row.marks, strict=True
    ):
      text = shown(measure, cell)
      if mark is not None:
        text = marks[0 if mark == BEST else 1](text)
      cells.append(text)
    lines.append([escape(row.label), str(row.num_seeds), *cells])
  return lines


def has_marks(table: Table) -> bool:
  """Returns whether a table marks any best or second-best cell."""
  return any(mark is not None for row in table.rows for mark in row.marks)


def caption(table: Table) -> list[str]:
  """Returns the lines of a table's caption."""
  has_spread = any(
    isinstance(cell, Value) and row.num_seeds > 1
    for row in table.rows
    for cell in row.cells
  )
  title = f"{table.task}: {table.caption}"
  return [f"{title};", _OVER_SEEDS] if has_spread else [title]


def _spaced(notes: Sequence[str]) -> list[str]:
  return ["", "\n\n".join(notes)] if notes else []


# LaTeX symbols of settings, as in docs/methods.md.
_SYMBOLS = {
  **{letter: letter for letter in "bmqt"},
  **{
    name: f"\\{name}"
    for name in ("alpha", "beta", "epsilon", "gamma", "mu", "tau")
  },
  "beta1": r"\beta_1",
  "beta2": r"\beta_2",
  "client_learning_rate": r"\eta",
  "lam": r"\lambda",
  "lambda_learning_rate": r"\gamma_\lambda",
  "server_learning_rate": r"\eta_s",
}
_SETTING = re.compile(rf"(?<!\S)({'|'.join(_SYMBOLS)})=")


def latex(tables: Sequence[Table], *, with_siunitx: bool = False) -> str:
  """Returns the tables as LaTeX."""
  head = "% Needs \\usepackage{booktabs}.\n"
  if with_siunitx:
    head = (
      "% Needs \\usepackage{booktabs,siunitx} and\n"
      "% \\sisetup{separate-uncertainty=true, detect-weight=true}.\n"
    )
  return head + "\n".join(_latex(table, with_siunitx) for table in tables)


def _latex(table: Table, with_siunitx: bool) -> str:
  alignments = "r" * len(table.measures)
  if with_siunitx:
    cells = marked_cells(
      table,
      lambda text: f"{{{escaping.latex(text)}}}",
      (
        lambda c: f"\\bfseries {c}",
        lambda c: f"{{\\underline{{{_siunitx_num(c)}}}}}",
      ),
      _siunitx_cell,
    )
    alignments = "".join(
      _siunitx_column(measure, [row.cells[place] for row in table.rows])
      for place, measure in enumerate(table.measures.values())
    )
  else:
    cells = marked_cells(
      table,
      escaping.latex,
      (lambda c: f"\\textbf{{{c}}}", lambda c: f"\\underline{{{c}}}"),
    )
  for row, line in zip(table.rows, cells[1:], strict=True):
    line[0] = _latex_label(row.label)
  head, *body = layout.align(cells)
  legend = (
    " Bold is not separable from the best, underlined second best."
    if has_marks(table)
    else ""
  )
  notes = "".join(f" {escaping.latex(note)}" for note in table.notes)
  title = escaping.latex(" ".join(caption(table)))
  lines = [
    r"\begin{table}",
    r"  \centering",
    rf"  \caption{{{title}.{legend}{notes}}}",
    rf"  \begin{{tabular}}{{lr{alignments}}}",
    r"    \toprule",
    f"    {' & '.join(head)} \\\\",
    r"    \midrule",
    *(f"    {' & '.join(line)} \\\\" for line in body),
    r"    \bottomrule",
    r"  \end{tabular}",
    r"\end{table}",
    "",
  ]
  return "\n".join(lines)


def _siunitx_cell(measure: Measure, cell: Cell) -> str:
  """Returns a cell for an `S` column of siunitx 2 or 3.

  siunitx aligns numbers at the decimal point, prints 90.65(331) as 90.65 ± 3.31
  with separate-uncertainty, and leaves text in braces unchanged.
  """
  if not isinstance(cell, Value) or not math.isfinite(cell.mean):
    return f"{{{escaping.latex(cell_text(measure, cell))}}}"
  number = value_text(measure, Value(cell.mean, None))
  if cell.std is None or math.isnan(cell.std):
    return number
  # siunitx expects the deviation in units of the last digit.
  return f"{number}({round(cell.std * 10**measure.digits)})"


def _siunitx_column(measure: Measure, cells: Sequence[Cell]) -> str:
  """Returns the LaTeX type of an S column with room for all its numbers."""
  numbers = [
    number
    for number in (_siunitx_cell(measure, cell) for cell in cells)
    if not number.startswith("{")
  ]
  if not numbers:
    return "r"
  parts = [re.split(r"[.(]", number.rstrip(")")) for number in numbers]
  whole = max(len(part[0].lstrip("+-")) for part in parts)
  sign = "+" if any(number[0] in "+-" for number in numbers) else ""
  digits = f".{measure.digits}" if measure.digits else ""
  stds = [p[-1] for p, n in zip(parts, numbers, strict=True) if "(" in n]
  spread = f"({max(map(len, stds))})" if stds else ""
  return f"S[table-format={sign}{whole}{digits}{spread}]"


def _siunitx_num(cell: str) -> str:
  return cell if cell.startswith("{") else f"\\num{{{cell}}}"


def _latex_label(label: str) -> str:
  r"""Returns a row's label in LaTeX, with symbols as in $\gamma$=0.1."""
  parts = _SETTING.split(label)
  # Names of settings are at odd indices, the text between them at even indices.
  return "".join(
    f"${_SYMBOLS[part]}$="
    if place % 2
    else escaping.latex(part, is_first=place == 0)
    for place, part in enumerate(parts)
  )
