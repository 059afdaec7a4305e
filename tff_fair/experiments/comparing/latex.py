r"""Tables of runs as LaTeX, to be read in with `\input`.

They need the package booktabs. With siunitx, columns of numbers are its `S`
columns: a value and its standard deviation become 90.65(331), which siunitx
aligns at the point and sets as 90.65 ± 3.31. Versions 2 and 3 of it take them.
"""

import math
import re
import unicodedata
from collections.abc import Sequence

from tff_fair.experiments import aligned_columns
from tff_fair.experiments.comparing import formats
from tff_fair.experiments.comparing import table as tables_of_methods
from tff_fair.experiments.comparing.measures import Measure, Value, value_text
from tff_fair.experiments.comparing.table import Cell, Table

# Characters that mean something to LaTeX, or are not in its usual fonts.
_CHARACTERS = {
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
# Settings, as docs/methods.md writes them.
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
  """Returns the tables as LaTeX.

  Args:
    tables: The tables.
    with_siunitx: Whether columns of numbers are siunitx's.
  """
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
    cells = formats.marked_cells(
      table,
      lambda text: f"{{{_text(text)}}}",
      (lambda c: f"\\bfseries {c}", lambda c: f"{{\\underline{{{_num(c)}}}}}"),
      _siunitx_cell,
    )
    alignments = "".join(
      _siunitx_column(measure, [row.cells[place] for row in table.rows])
      for place, measure in enumerate(table.measures.values())
    )
  else:
    cells = formats.marked_cells(
      table,
      _text,
      (lambda c: f"\\textbf{{{c}}}", lambda c: f"\\underline{{{c}}}"),
    )
  for row, line in zip(table.rows, cells[1:], strict=True):
    line[0] = _label(row.label)
  head, *body = aligned_columns.pad(cells)
  legend = (
    " Bold is not separable from the best, underlined second best."
    if formats.has_marks(table)
    else ""
  )
  notes = "".join(f" {_text(note)}" for note in table.notes)
  caption = _text(" ".join(formats.caption(table)))
  lines = [
    r"\begin{table}",
    r"  \centering",
    rf"  \caption{{{caption}.{legend}{notes}}}",
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
  """Returns a number as siunitx reads it; text in braces, which it copies."""
  if not isinstance(cell, Value) or not math.isfinite(cell.mean):
    return f"{{{_text(tables_of_methods.text(measure, cell))}}}"
  number = value_text(measure, Value(cell.mean, None))
  if cell.std is None or math.isnan(cell.std):
    return number
  # In units of the last digit.
  return f"{number}({round(cell.std * 10**measure.digits)})"


def _siunitx_column(measure: Measure, cells: Sequence[Cell]) -> str:
  """Returns an S column with room for the largest number of a column."""
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


def _num(cell: str) -> str:
  return cell if cell.startswith("{") else f"\\num{{{cell}}}"


def _label(label: str) -> str:
  r"""Returns the label of a row, with settings as symbols: $\gamma$=0.1."""
  parts = _SETTING.split(label)
  # Texts and names take turns.
  return "".join(
    f"${_SYMBOLS[part]}$=" if place % 2 else _text(part, is_first=place == 0)
    for place, part in enumerate(parts)
  )


def _text(value: str, *, is_first: bool = True) -> str:
  with_minus = re.sub(r"(?<!\w)-(?=\d)", "−", value)
  text = "".join(_CHARACTERS.get(sign) or _greek(sign) for sign in with_minus)
  text = re.sub("-(?=-)", "-{}", text)  # Two of them would become a dash.
  if not is_first:
    return text
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
