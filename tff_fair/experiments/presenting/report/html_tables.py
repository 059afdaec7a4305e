"""Tables as records, which `table.html` renders and the page's script sorts."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tff_fair.experiments import number_text
from tff_fair.experiments.analysis import comparison_table, measures
from tff_fair.experiments.analysis.measures import Measure, Value
from tff_fair.experiments.presenting.rendering import TemplateRecord
from tff_fair.experiments.presenting.report.task_runs import Method, Style

# The CSS class of each mark, and its text for screen readers.
_MARKS = {
  None: ("", ""),
  comparison_table.BEST: ("best", "best, or not separable from it"),
  comparison_table.SECOND: ("second", "second best"),
}


@dataclasses.dataclass(frozen=True)
class Cell:
  """A cell: the value to sort by, its text, and small text after it."""

  value: float
  text: str = ""
  small: str = ""
  mark: str = ""  # "best" or "second".
  unseen: str = ""  # Text for screen readers only.
  class_: str = ""
  is_mean: bool = False
  interval: object = None  # A drawing to show after the text.
  counts: Sequence[int] = ()  # Numbers to show side by side.

  @property
  def key(self) -> str:
    """The value as JavaScript's number syntax, for the page's script."""
    if math.isfinite(self.value):
      return repr(float(self.value))
    if math.isnan(self.value):
      return "NaN"
    return f"{'-' * (self.value < 0)}Infinity"


class Head(NamedTuple):
  """The title of a column, and the sort order after a first click on it."""

  title: str
  first: str


class Row(NamedTuple):
  """A row: its name, its cells, and its method's style."""

  name: str
  cells: Sequence[Cell]
  style: Style | None = None


@dataclasses.dataclass(frozen=True)
class Table(TemplateRecord):
  """A table whose first column has the names of the rows."""

  template = "table.html"

  caption: str
  name: str
  heads: Sequence[Head]
  rows: Sequence[Row]
  is_sortable: bool = True


class Column(NamedTuple):
  """A column of a table of methods."""

  head: Head
  cells: Sequence[Cell]


def column(
  measure: Measure,
  values: Sequence[Value],
  marks: Sequence[int | None] | None = None,
) -> Column:
  """Returns a column of values, one for each method."""
  found = marks or [None] * len(values)
  cells = [_value(measure, v, m) for v, m in zip(values, found, strict=True)]
  return Column(head(measure), cells)


def over_seeds(measure: Measure, values: Iterable[Sequence[float]]) -> Column:
  """Returns a column of mean and std over seeds, a cell for each method."""
  return column(measure, [measures.over_seeds(measure, v) for v in values])


def of_methods(
  caption: str, methods: Sequence[Method], columns: Sequence[Column]
) -> Table:
  """Returns a table with a row for each method; readers can sort the table."""
  heads = [Head("Seeds", "ascending"), *(c.head for c in columns)]
  rows = [
    Row(
      method.label,
      [
        Cell(len(method.runs), f"{len(method.runs)}"),
        *(column.cells[place] for column in columns),
      ],
      method.style,
    )
    for place, method in enumerate(methods)
  ]
  return Table(caption, "Method", heads, rows)


def of_text(caption: str, lines: Sequence[Sequence[str]]) -> Table:
  """Returns a table that readers cannot sort; the first line has the heads."""
  (first, *titles), *rows = lines
  return Table(
    caption,
    first,
    [Head(title, "") for title in titles],
    [
      Row(n, [Cell(math.nan, number_text.with_minus(c)) for c in cells])
      for n, *cells in rows
    ],
    is_sortable=False,
  )


def head(measure: Measure, before: str = "") -> Head:
  """Returns the head of a measure's column; a click sorts the best first."""
  title = measure.title.replace(" %", "\N{NO-BREAK SPACE}%")
  first = "descending" if measure.higher_is_better else "ascending"
  return Head(f"{before}{title}", first)


def _value(measure: Measure, value: Value, mark: int | None) -> Cell:
  text = number_text.with_minus(measures.value_text(measure, value))
  mean, sign, std = text.partition(" ± ")
  found, unseen = _MARKS[mark]
  return Cell(value.mean, mean, f"{sign}{std}", found, unseen, is_mean=True)
