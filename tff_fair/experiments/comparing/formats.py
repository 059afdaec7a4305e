"""Tables of runs as text, CSV and Markdown; `latex` has its own module.

The best of a column, with all that cannot be told from it, and the second best
are set apart as each format can: with stars in plain text, bold and in italics
in Markdown.
"""

import re
import textwrap
from collections.abc import Callable, Sequence

import pandas as pd

from tff_fair.experiments import aligned_columns, spreadsheets
from tff_fair.experiments.comparing import table as tables_of_methods
from tff_fair.experiments.comparing.marks import BEST
from tff_fair.experiments.comparing.measures import Measure, Value
from tff_fair.experiments.comparing.table import Cell, Table

Escape = Callable[[str], str]
Show = Callable[[Measure, Cell], str]

_METHOD, _SEEDS = "Method", "Seeds"
_WIDTH = 100  # Of captions in plain text.
_OVER_SEEDS = "mean ± standard deviation over seeds"


def frame(tables: Sequence[Table], *, is_rounded: bool = False) -> pd.DataFrame:
  """Returns all tables as one, for programs.

  Args:
    tables: The tables.
    is_rounded: Whether numbers have the digits of a table, or all they have.

  Returns:
    A row for each method of each task: task, method, seeds, and for each
    measure NAME its mean over seeds, and NAME_std_over_seeds, their standard
    deviation, which is missing where there is one seed. Differences to a
    baseline have the names that `table.numbers` gives.
  """
  rows: dict[tuple[str, str], dict[str, object]] = {}
  for table in tables:
    for row in table.rows:
      cells = rows.setdefault(
        (table.task, row.label),
        {"task": table.task, "method": row.label, "seeds": row.num_seeds},
      )
      for (name, measure), cell in zip(
        table.measures.items(), row.cells, strict=True
      ):
        cells |= tables_of_methods.numbers(
          name, measure, cell, is_rounded=is_rounded
        )
  return pd.DataFrame(list(rows.values())).convert_dtypes(
    convert_string=False, convert_integer=False, convert_floating=False
  )


def csv(tables: Sequence[Table]) -> str:
  """Returns all tables as one CSV table; numbers are not rounded.

  A spreadsheet runs none of its texts; `spreadsheets.unquoted` undoes it.
  """
  found = frame(tables)
  for column in ("task", "method"):
    found[column] = found[column].map(spreadsheets.quoted)
  return str(found.to_csv(index=False))


def text(tables: Sequence[Table]) -> str:
  """Returns the tables for a terminal."""
  return "\n\n".join(_text(table) for table in tables)


def markdown(tables: Sequence[Table]) -> str:
  """Returns the tables as Markdown, aligned for those who read its source."""
  return "\n\n".join(_markdown(table) for table in tables) + "\n"


def _text(table: Table) -> str:
  cells = marked_cells(table, str, (lambda c: f"{c} **", lambda c: f"{c} * "))
  columns = [list(column) for column in zip(*cells, strict=True)]
  for column in columns:
    # Cells without stars keep their place free, where a column has any.
    starred = [cell.rstrip().endswith("*") for cell in column]
    if any(starred):
      column[:] = [
        cell if has_star else f"{cell}   "
        for cell, has_star in zip(column, starred, strict=True)
      ]
  lines = aligned_columns.pad(list(zip(*columns, strict=True)), gap=2)
  legend = ["** not separable from the best, * second best"]
  legend = legend if has_marks(table) else []
  body = ["".join(line).rstrip() for line in lines]
  title = [part for line in caption(table) for part in _wrapped(line)]
  return "\n".join([*title, *legend, "", *body, *_spaced(table.notes)])


def _markdown(table: Table) -> str:
  cells = marked_cells(
    table, _markdown_text, (lambda c: f"**{c}**", lambda c: f"*{c}*")
  )
  head, *body = aligned_columns.pad(cells)
  rule = ["-" * len(head[0]), *("-" * (len(c) - 1) + ":" for c in head[1:])]
  lines = [f"| {' | '.join(line)} |" for line in (head, rule, *body)]
  legend = " **Not separable from the best**, *second best*."
  legend = legend if has_marks(table) else ""
  title = " ".join(map(_markdown_text, caption(table)))
  notes = [_markdown_text(note) for note in table.notes]
  return "\n".join([f"{title}.{legend}", "", *lines, *_spaced(notes)])


def marked_cells(
  table: Table,
  escape: Escape,
  marks: tuple[Escape, Escape],
  show: Show | None = None,
) -> list[list[str]]:
  """Returns head and rows as text, with the best and the second best marked.

  Args:
    table: The table.
    escape: Escapes a text for the format.
    marks: Mark a cell as one of the best, and as the second best.
    show: Returns a cell for the format; by default its text, escaped.
  """
  shown = show or (lambda m, c: escape(tables_of_methods.text(m, c)))
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
  """Returns whether a cell of a table is marked."""
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


def _wrapped(line: str) -> list[str]:
  return textwrap.wrap(line, _WIDTH, break_on_hyphens=False)


def _spaced(notes: Sequence[str]) -> list[str]:
  return ["", "\n\n".join(notes)] if notes else []


def _markdown_text(value: str) -> str:
  return re.sub(r"([\\|*`<_])", r"\\\1", value)
