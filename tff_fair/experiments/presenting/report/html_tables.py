"""Tables of values, a row for each method; sorted by the page's script."""

import dataclasses
import math
from collections.abc import Iterable, Sequence

from tff_fair.experiments.analysis import comparison_table, measures
from tff_fair.experiments.analysis.measures import Measure, Value
from tff_fair.experiments.presenting.report.markup import Child, Markup, element
from tff_fair.experiments.presenting.report.task_runs import MethodRuns, Style

# The class of a mark, and what it says to those who do not see it.
_MARKS = {
  comparison_table.BEST: ("best", "best, or not separable from it"),
  comparison_table.SECOND: ("second", "second best"),
}


@dataclasses.dataclass(frozen=True)
class TableColumn:
  """A column of a table.

  Attributes:
    head: Its name.
    first: The order of the first click on it: "ascending" or "descending".
    cells: One for each method.
  """

  head: str
  first: str
  cells: Sequence[Markup]


def column(
  measure: Measure,
  values: Sequence[Value],
  marks: Sequence[int | None] | None = None,
) -> TableColumn:
  """Returns a column of values."""
  found = marks or [None] * len(values)
  cells = [_value(measure, v, m) for v, m in zip(values, found, strict=True)]
  return TableColumn(head(measure), first_order(measure), cells)


def over_seeds(
  measure: Measure, values: Iterable[Sequence[float]]
) -> TableColumn:
  """Returns a column of numbers of runs, in the mean over seeds."""
  return column(measure, [measures.over_seeds(measure, v) for v in values])


def draw(
  caption: str, methods: Sequence[MethodRuns], columns: Sequence[TableColumn]
) -> Markup:
  """Returns a table of methods."""
  return sortable(
    caption,
    "Method",
    [("Seeds", "ascending"), *((c.head, c.first) for c in columns)],
    [
      [
        name_cell(method.label, swatch(method.style)),
        element("td", len(method.runs), data_value=len(method.runs)),
        *(column.cells[place] for column in columns),
      ]
      for place, method in enumerate(methods)
    ],
  )


def sortable(
  caption: str,
  name: str,
  heads: Iterable[tuple[str, str]],
  rows: Iterable[Child],
) -> Markup:
  """Returns a table that the page's script sorts by a clicked head."""
  return captioned(
    caption,
    [
      element("th", head, scope="col", data_first=first, class_=class_)
      for head, first, class_ in [
        (name, "text", "name"),
        *((head, first, None) for head, first in heads),
      ]
    ],
    element("tbody", [element("tr", row) for row in rows]),
    class_="sortable",
  )


def captioned(
  caption: str,
  heads: Sequence[Markup],
  body: Child,
  *,
  class_: str | None = None,
) -> Markup:
  """Returns a table with a caption and a head, which scrolls if need be."""
  # In a span, the caption stays where it is while the table scrolls.
  shown = element("caption", element("span", caption))
  return _scrolling(caption, shown, heads, body, class_)


def _scrolling(
  name: str,
  caption: Markup,
  heads: Sequence[Markup],
  body: Child,
  class_: str | None = None,
) -> Markup:
  return element(
    "div",
    element(
      "table",
      caption,
      element("thead", element("tr", heads)),
      body,
      class_=class_,
    ),
    class_="scrolling",
    # A keyboard must be able to scroll it.
    tabindex="0",
    role="region",
    aria_label=name,
  )


def head(measure: Measure) -> str:
  """Returns the name of a measure; its sign goes to no line of its own."""
  return measure.title.replace(" %", "\N{NO-BREAK SPACE}%")


def first_order(measure: Measure) -> str:
  """Returns the order that has the best first."""
  return "descending" if measure.higher_is_better else "ascending"


def cell(value: float, *children: Child, class_: str | None = None) -> Markup:
  """Returns a cell."""
  return element("td", *children, data_value=_number(value), class_=class_)


def name_cell(name: str, *before: Child) -> Markup:
  """Returns the first cell of a row, its name."""
  return element(
    "th",
    *before,
    element("span", name),
    scope="row",
    class_="name",
    data_value=name,
  )


def of_text(caption: str, lines: Sequence[Sequence[str]]) -> Markup:
  """Returns a table of texts, which is not sorted."""
  (first, *titles), *rows = lines
  return _scrolling(
    caption,
    element("caption", caption),
    [
      element("th", first, scope="col", class_="name"),
      *(element("th", title, scope="col") for title in titles),
    ],
    element(
      "tbody",
      [
        element(
          "tr",
          element("th", row[0], scope="row", class_="name"),
          [element("td", with_minus(cell)) for cell in row[1:]],
        )
        for row in rows
      ],
    ),
  )


def with_minus(number: str) -> str:
  """Returns a number with a true minus sign."""
  return number.replace("-", "−")


def swatch(style: Style) -> Markup:
  """Returns a piece of a method's line with its marker."""
  return element(
    "svg",
    element("path", d="M1 8H33", class_="line", stroke_dasharray=style.dashes),
    element(
      "path", d=style.marker, transform="translate(17 8)", class_="marker"
    ),
    viewBox="0 0 34 16",
    class_=f"swatch series c{style.color}",
    aria_hidden="true",
  )


def _number(value: float) -> str:
  """Returns a number as the script reads it."""
  if math.isfinite(value):
    return repr(float(value))
  return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"


def _value(measure: Measure, value: Value, mark: int | None) -> Markup:
  text = measures.value_text(measure, value)
  mean, plus_minus, std = with_minus(text).partition(" ± ")
  shown = element("span", mean, class_="mean")
  if mark is not None:
    class_, words = _MARKS[mark]
    shown = element(
      "strong" if mark == comparison_table.BEST else "em",
      mean,
      element("span", f" ({words})", class_="unseen"),
      class_=f"mean {class_}",
    )
  return cell(
    value.mean, shown, element("small", plus_minus, std) if std else None
  )
