"""Tables of values, a row for each method; sorted by the page's script."""

import math
from collections.abc import Sequence

from tff_fair.experiments.comparing import measures
from tff_fair.experiments.comparing.measures import Measure, Value
from tff_fair.experiments.reporting.markup import Markup, element
from tff_fair.experiments.reporting.methods import Method
from tff_fair.experiments.reporting.styles import Style

_RANKS = {1: ("best", "best"), 2: ("second", "second best")}


def draw(
  caption: str,
  methods: Sequence[Method],
  columns: Sequence[tuple[Measure, Sequence[Value]]],
) -> Markup:
  """Returns a table of methods.

  Args:
    caption: Name of the values.
    methods: One for each row.
    columns: For each, its measure and a value for each method.
  """
  heads = [
    _head("Method", "text", class_="name"),
    _head("Seeds", "ascending"),
    *(_measure_head(measure) for measure, _ in columns),
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
    _row(method, [column[place] for column in cells])
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
  """Returns a table that scrolls if the page is too narrow for it."""
  return element(
    "div",
    table,
    class_="scrolling",
    # A keyboard must be able to scroll it.
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


def _row(method: Method, cells: Sequence[Markup]) -> Markup:
  return element(
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
    cells,
  )


def _measure_head(measure: Measure) -> Markup:
  return _head(
    # The sign does not go to a line of its own.
    measure.title.replace(" %", "\N{NO-BREAK SPACE}%"),
    "descending" if measure.higher_is_better else "ascending",
  )


def _head(title: str, first: str, class_: str | None = None) -> Markup:
  """Returns a head; the first click on it sorts in the order `first`."""
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
