"""Which labels the clients of a split have, as a heat map below their sizes."""

import numpy as np
import pandas as pd

from binaries.report_page import frame as frames
from binaries.report_page import heat_map, shapes
from binaries.report_page.frame import Frame
from binaries.report_page.markup import Markup, element
from binaries.report_page.scale import Scale, linear

_MAX_COLUMNS, _MAX_ROWS = 200, 100
_LEFT, _RIGHT, _SIZES_HEIGHT = 46, 70, 110
_MAX_WIDTH, _MAX_HEIGHT = 980, 300
_CLIENT_WIDTH, _CLASS_HEIGHT = 40, 26  # At most.


def counts_of(table: pd.DataFrame) -> np.ndarray:
  """Returns the counts of a table of labels: float[clients, classes].

  Args:
    table: client_id, and a column for each class.
  """
  counts = table.sort_values("client_id").drop(columns="client_id")
  return counts.apply(pd.to_numeric, errors="coerce").fillna(0).to_numpy(float)


def merged(counts: np.ndarray, limit: int) -> np.ndarray:
  """Adds up neighbouring rows so that at most `limit` remain."""
  if len(counts) <= limit:
    return counts
  starts = -(-np.arange(limit) * len(counts) // limit)
  return np.add.reduceat(counts, starts, axis=0)


def draw(counts: np.ndarray, identifier: str) -> Markup:
  """Draws the labels of clients.

  Args:
    counts: float[clients, classes], a client at least and a class.
    identifier: Unique on the page.
  """
  num_clients, num_classes = counts.shape
  is_ordered = num_clients > _MAX_COLUMNS
  if is_ordered:  # Clients alike must be neighbours to be drawn as one.
    counts = counts[np.lexsort((counts.max(axis=1), counts.argmax(axis=1)))]
  columns = merged(counts, _MAX_COLUMNS)
  members = merged(np.ones((num_clients, 1)), _MAX_COLUMNS)[:, 0]
  # Totals are drawn for one client, the mean of those in a column.
  sizes = columns.sum(axis=1) / members
  labels = merged(columns.T, _MAX_ROWS)
  with np.errstate(invalid="ignore"):
    shares = 100 * labels / labels.sum(axis=0)
  shares[shares == 0] = np.nan
  clients, classes = (
    linear(-0.5, n - 0.5, num_ticks=10, is_tight=True, is_whole=True)
    for n in counts.shape
  )
  width = min(_LEFT + _CLIENT_WIDTH * num_clients + _RIGHT, _MAX_WIDTH)
  height = min(_CLASS_HEIGHT * num_classes + 56, _MAX_HEIGHT)
  above = Frame(
    Scale(clients.low, clients.high, ()),
    linear(0, float(sizes.max()), num_ticks=2),
    width=width,
    height=_SIZES_HEIGHT,
    bottom=6,
    left=_LEFT,
    right=_RIGHT,
    top=14,
  )
  below = Frame(
    clients,
    Scale(classes.high, classes.low, classes.ticks),
    x_label="client, those with the same largest class side by side"
    if is_ordered
    else "client",
    width=width,
    height=_SIZES_HEIGHT + height,
    top=_SIZES_HEIGHT + 14,
    left=_LEFT,
    right=_RIGHT,
  )
  shades = heat_map.shades_for(shares)
  return frames.drawing(
    identifier,
    f"Labels of {num_clients:,} clients",
    f"Columns are clients, rows the {num_classes:,} classes from the first on "
    "top; darker is a larger share of the client's examples. Above, how many "
    "examples a client has.",
    below.width,
    below.height,
    above.axes(),
    frames.text("examples", above.left, 9, "start"),
    element("path", d=_bars(sizes, above), class_="bars quiet"),
    below.axes(has_grid=False),
    frames.text(
      "class; shade: % of examples", below.left, below.top - 5, "start"
    ),
    heat_map.cells(shares, shades, below),
    heat_map.key(shades, below),
  )


def _bars(sizes: np.ndarray, frame: Frame) -> str:
  x = np.round(
    np.linspace(frame.left, frame.width - frame.right, len(sizes) + 1)
  )
  floor, tops = frame.y_pixels([0])[0], frame.y_pixels(sizes)
  gap = 1 if len(sizes) <= 100 else 0
  return "".join(
    shapes.box(left, top, right - left - gap, floor - top)
    for left, right, top in zip(x, x[1:], tops, strict=False)
  )
