"""Columns of the differences to a baseline, each interval drawn."""

import math
from collections.abc import Mapping, Sequence

from tff_fair.experiments.comparing import marks, table
from tff_fair.experiments.comparing.measures import Measure
from tff_fair.experiments.comparing.paired import Difference
from tff_fair.experiments.comparing.table import Contrast, Row
from tff_fair.experiments.comparing.wins import Record
from tff_fair.experiments.reporting import tables
from tff_fair.experiments.reporting.markup import Markup, element
from tff_fair.experiments.reporting.methods import Method
from tff_fair.experiments.reporting.tables import Column

_WIDTH, _HEIGHT, _EDGE = 120, 10, 4  # Of the drawing of an interval.


def build(
  methods: Sequence[Method],
  baseline: str,
  shown: Sequence[Measure],
  rows: Mapping[str, Row],
) -> list[Column]:
  """Returns the columns: a difference for each measure, and the clients.

  Args:
    methods: One for each row of the table.
    baseline: The label of the baseline.
    shown: The measures.
    rows: Differences of each measure and the record of the clients, by the
      label of the method; a method may have none.
  """
  if not rows:
    return []
  columns = [
    _differences(methods, baseline, measure, place, rows)
    for place, measure in enumerate(shown)
  ]
  records = [
    _record(rows[method.label].cells[-1])
    if method.label in rows
    else tables.cell(math.nan, "–", class_="quiet-cell")
    for method in methods
  ]
  return [
    *columns,
    Column("Clients better, same, worse", "descending", records),
  ]


def _differences(
  methods: Sequence[Method],
  baseline: str,
  measure: Measure,
  place: int,
  rows: Mapping[str, Row],
) -> Column:
  found: dict[str, Contrast] = {}
  for label, row in rows.items():
    cell = row.cells[place]
    if isinstance(cell, Contrast):
      found[label] = cell
  low, high = _range([contrast.difference for contrast in found.values()])
  cells = [
    _difference(method, measure, found[method.label], low, high)
    if method.label in found
    else _nothing(method, baseline)
    for method in methods
  ]
  return Column(
    f"Δ\N{NO-BREAK SPACE}{tables.head(measure)}",
    tables.first_order(measure),
    cells,
  )


def _range(differences: Sequence[Difference]) -> tuple[float, float]:
  """Returns the ends of a scale that has 0 and all intervals."""
  ends = [0.0]
  for found in differences:
    ends += [found.estimate, found.low, found.high]
  finite = [end for end in ends if math.isfinite(end)]
  return min(finite), max(finite)


def _difference(
  method: Method, measure: Measure, contrast: Contrast, low: float, high: float
) -> Markup:
  found = contrast.difference
  text = table.difference_text(measure, found).replace("-", "−")
  estimate, bracket, interval = text.partition(" [")
  p_value = table.probability_text(contrast.p_holm)
  is_told = contrast.p_holm < marks.LEVEL
  return tables.cell(
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
  method: Method, found: Difference, low: float, high: float
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
  if not isinstance(record, Record):
    raise TypeError(f"Expected the record of the clients, found {record!r}.")
  return tables.cell(
    record.wins - record.losses,
    [element("span", f"{count:,}") for count in record],
    class_="record",
  )


def _nothing(method: Method, baseline: str) -> Markup:
  """Returns the cell of the baseline, or of a method without a common seed."""
  is_baseline = method.label == baseline
  return tables.cell(
    0.0 if is_baseline else math.nan,
    "baseline" if is_baseline else "no common seed",
    class_="quiet-cell",
  )
