r"""Tables of runs as text, CSV, Markdown and LaTeX.

The best of a column is bold and the second best set apart as each format can:
underlined in LaTeX, in italics in Markdown, with stars in plain text.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Sequence

import pandas as pd

from tff_fair.experiments import aligned_columns
from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.tables import Table

Mark = Callable[[str], str]

_METHOD, _SEEDS = "Method", "Seeds"
_OVER_SEEDS = "mean ± standard deviation over seeds"
# Characters that mean something to LaTeX, or are not in its usual fonts.
_LATEX = {
  **{sign: f"\\{sign}" for sign in "&%$#_{}"},
  "\\": r"\textbackslash{}",
  "~": r"\textasciitilde{}",
  "^": r"\textasciicircum{}",
  "<": r"\textless{}",
  ">": r"\textgreater{}",
  "|": r"\textbar{}",
  "±": r"$\pm$",
  "−": "$-$",
  "°": r"$^\circ$",
  "ς": r"$\varsigma$",
  "ϵ": r"$\epsilon$",
  "ϕ": r"$\phi$",
  "ϑ": r"$\vartheta$",
  # Greek letters that look like Latin ones have no commands.
  **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True)),
}


def frame(tables: Sequence[Table], *, is_rounded: bool = False) -> pd.DataFrame:
  """Returns all tables as one, for programs.

  Args:
    tables: The tables.
    is_rounded: Whether numbers have the digits of a table, or all they have.

  Returns:
    A row for each method of each task: task, method, seeds, and for each
    measure NAME its mean over seeds, and NAME_std_over_seeds, their standard
    deviation, which is missing where there is one seed.
  """
  rows: dict[tuple[str, str], dict[str, object]] = {}
  for table in tables:
    for row in table.rows:
      cells = rows.setdefault(
        (table.task, row.label),
        {"task": table.task, "method": row.label, "seeds": row.num_seeds},
      )
      for (name, measure), (mean, std) in zip(
        table.measures.items(), row.values, strict=True
      ):
        digits = measure.digits if is_rounded else None
        cells[name] = _number(mean, digits)
        cells[f"{name}_std_over_seeds"] = _number(std, digits)
  return pd.DataFrame(list(rows.values())).convert_dtypes(
    convert_string=False, convert_integer=False, convert_floating=False
  )


def csv(tables: Sequence[Table]) -> str:
  """Returns all tables as one CSV table; numbers are not rounded."""
  return str(frame(tables).to_csv(index=False))


def text(tables: Sequence[Table]) -> str:
  """Returns the tables for a terminal."""
  return "\n\n".join(_text(table) for table in tables)


def markdown(tables: Sequence[Table]) -> str:
  """Returns the tables as Markdown, aligned for those who read its source."""
  return "\n\n".join(_markdown(table) for table in tables) + "\n"


def latex(tables: Sequence[Table]) -> str:
  """Returns the tables as LaTeX, to be read in with `input`."""
  head = "% Needs \\usepackage{booktabs}.\n"
  return head + "\n".join(_latex(table) for table in tables)


def _number(value: float | None, digits: int | None) -> float:
  if value is None:
    return math.nan
  return value if digits is None else round(value, digits)


def _text(table: Table) -> str:
  cells = _cells(table, str, (lambda c: f"{c} **", lambda c: f"{c} * "))
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
  marks = ["** best, * second best"] if _has_marks(table) else []
  body = ["".join(line).rstrip() for line in lines]
  return "\n".join([*_caption(table), *marks, "", *body, *_spaced(table.notes)])


def _markdown(table: Table) -> str:
  cells = _cells(
    table, _markdown_text, (lambda c: f"**{c}**", lambda c: f"*{c}*")
  )
  head, *body = aligned_columns.pad(cells)
  rule = ["-" * len(head[0]), *("-" * (len(c) - 1) + ":" for c in head[1:])]
  lines = [f"| {' | '.join(line)} |" for line in (head, rule, *body)]
  marks = " **Best**, *second best*." if _has_marks(table) else ""
  caption = " ".join(map(_markdown_text, _caption(table)))
  notes = [_markdown_text(note) for note in table.notes]
  return "\n".join([f"{caption}.{marks}", "", *lines, *_spaced(notes)])


def _latex(table: Table) -> str:
  cells = _cells(
    table,
    _latex_text,
    (lambda c: f"\\textbf{{{c}}}", lambda c: f"\\underline{{{c}}}"),
  )
  head, *body = aligned_columns.pad(cells)
  marks = " Bold is best, underlined second best." if _has_marks(table) else ""
  notes = "".join(f" {_latex_text(note)}" for note in table.notes)
  caption = _latex_text(" ".join(_caption(table)))
  lines = [
    r"\begin{table}",
    r"  \centering",
    rf"  \caption{{{caption}.{marks}{notes}}}",
    rf"  \begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
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


def _cells(
  table: Table, escape: Mark, marks: tuple[Mark, Mark]
) -> list[list[str]]:
  """Returns head and rows, with the best and the second best marked."""
  columns = []
  for place, measure in enumerate(table.measures.values()):
    values = [row.values[place] for row in table.rows]
    column = [escape(measure.title)]
    for value, rank in zip(
      values, measures.ranks(measure, values), strict=True
    ):
      cell = escape(measures.value_text(measure, value))
      column.append(cell if rank is None else marks[rank - 1](cell))
    columns.append(column)
  labels = [escape(_METHOD), *(escape(row.label) for row in table.rows)]
  seeds = [_SEEDS, *(str(row.num_seeds) for row in table.rows)]
  return [list(line) for line in zip(labels, seeds, *columns, strict=True)]


def _has_marks(table: Table) -> bool:
  return any(
    rank is not None
    for place, measure in enumerate(table.measures.values())
    for rank in measures.ranks(measure, [r.values[place] for r in table.rows])
  )


def _caption(table: Table) -> list[str]:
  has_seeds = any(row.num_seeds > 1 for row in table.rows)
  caption = f"{table.task}: {table.caption}"
  return [f"{caption};", _OVER_SEEDS] if has_seeds else [caption]


def _spaced(notes: Sequence[str]) -> list[str]:
  return ["", "\n\n".join(notes)] if notes else []


def _markdown_text(value: str) -> str:
  return re.sub(r"([\\|*`<_])", r"\\\1", value)


def _latex_text(value: str) -> str:
  with_minus = re.sub(r"(?<!\w)-(?=\d)", "−", value)
  text = "".join(_LATEX.get(sign) or _greek(sign) for sign in with_minus)
  text = re.sub("-(?=-)", "-{}", text)  # Two of them would become a dash.
  # At the beginning of a row, these would belong to the end of the last one.
  return re.sub(r"^(\s*)([\[*])", r"\1{\2}", text)


def _greek(sign: str) -> str:
  """Returns a Greek letter as LaTeX's command, others as they are."""
  match = re.fullmatch(
    r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(sign, "")
  )
  if match is None:
    return sign
  name = match[2].lower().replace("lamda", "lambda")
  return f"$\\{name if match[1] == 'SMALL' else name.capitalize()}$"
