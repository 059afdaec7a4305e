"""Tables of values, a row for each method; sorted by the page's script."""

import math
from collections.abc import Sequence

from binaries import measures
from binaries.measures import Measure, Value
from binaries.report_page.markup import Markup, element
from binaries.report_page.methods import Method
from binaries.report_page.styles import Style

_RANKS = {1: ("best", "best"), 2: ("second", "second best")}


def draw(
  caption: str,
  methods: Sequence[Method],
  columns: Sequence[tuple[Measure, Sequence[Value]]],
) -> Markup:
  """Returns a table of methods.

  Args:
    caption: What the values are.
    methods: One for each row.
    columns: For each, its measure and a value for each method.
  """
  heads = [
    _head("Method", "text", class_="name"),
    _head("Seeds", "ascending"),
    *(
      _head(
        # Without a line of its own for the sign.
        measure.title.replace(" %", "\N{NO-BREAK SPACE}%"),
        "descending" if measure.higher_is_better else "ascending",
      )
      for measure, _ in columns
    ),
  ]
  cells = [
    [
      _cell(measure, value, rank)
      for value, rank in zip(
        values, measures.ranks(measure, values), strict=True
      )
    ]
    for measure, values in columns
  ]
  rows = [
    element(
      "tr",
      element(
        "th",
        swatch(method.style),
        element("span", method.label),
        scope="row",
        class_="name",
        data_value=method.label,
      ),
      element("td", len(method.runs), data_value=len(method.runs)),
      [column[place] for column in cells],
    )
    for place, method in enumerate(methods)
  ]
  return scrolling(
    caption,
    element(
      "table",
      element("caption", caption),
      element("thead", element("tr", heads)),
      element("tbody", rows),
      class_="sortable",
    ),
  )


def scrolling(name: str, table: Markup) -> Markup:
  """Returns a table that scrolls where it is too wide."""
  return element(
    "div",
    table,
    class_="scrolling",
    # Those who use no mouse must be able to scroll it.
    tabindex="0",
    role="region",
    aria_label=name,
  )


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


def _head(title: str, first: str, class_: str | None = None) -> Markup:
  """Returns a head; `first` is the order in which a click sorts at first."""
  return element("th", title, scope="col", data_first=first, class_=class_)


def _number(value: float) -> str:
  """Returns a number as the script reads it."""
  if math.isfinite(value):
    return repr(float(value))
  return "NaN" if math.isnan(value) else f"{'-' * (value < 0)}Infinity"


def _cell(measure: Measure, value: Value, rank: int | None) -> Markup:
  text = measures.value_text(measure, value)
  mean, plus_minus, std = text.replace("-", "−").partition(" ± ")
  shown = element("span", mean, class_="mean")
  if rank is not None:
    class_, words = _RANKS[rank]
    shown = element(
      "strong" if rank == 1 else "em",
      mean,
      element("span", f" ({words})", class_="unseen"),
      class_=f"mean {class_}",
    )
  return element(
    "td",
    shown,
    element("small", plus_minus, std) if std else None,
    data_value=_number(value.mean),
  )
