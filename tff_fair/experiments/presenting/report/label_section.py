"""Section: a chart of each client's size and shares of labels."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from tff_fair.experiments.presenting.report import heat_map, section
from tff_fair.experiments.presenting.report.frame import (
  Chart,
  Figure,
  Frame,
  Path,
  Text,
  box_path,
)
from tff_fair.experiments.presenting.report.scale import Scale, linear
from tff_fair.experiments.presenting.report.task_runs import (
  ClientNames,
  TaskRuns,
)

_MAX_LABEL_COLUMNS, _MAX_LABEL_ROWS = 200, 100
_LEFT, _RIGHT, _SIZES_HEIGHT = 46, 70, 110
_MAX_WIDTH, _MAX_HEIGHT = 980, 300
_CLIENT_WIDTH, _CLASS_HEIGHT = 40, 26  # Upper limits, in pixels.


class Labels(NamedTuple):
  """Client ids, and numbers of examples by label, float[clients, classes]."""

  clients: np.ndarray
  counts: np.ndarray


def labels_of_table(table: pd.DataFrame) -> Labels:
  """Reads labels from a table with client_id and a column for each class."""
  table = table.sort_values("client_id")
  counts = table.drop(columns="client_id").apply(pd.to_numeric, errors="coerce")
  return Labels(
    table["client_id"].to_numpy(int), counts.fillna(0).to_numpy(float)
  )


def merge_rows(counts: np.ndarray, limit: int) -> np.ndarray:
  """Adds up neighbouring rows so that at most `limit` remain."""
  if len(counts) <= limit:
    return counts
  starts = -(-np.arange(limit) * len(counts) // limit)
  return np.add.reduceat(counts, starts, axis=0)


def draw_labels(found: Labels, names: ClientNames, identifier: str) -> Chart:
  """Draws the sizes of clients above their shares of labels."""
  counts, x_label = found.counts, "client"
  num_clients, num_classes = counts.shape
  is_ordered = num_clients > _MAX_LABEL_COLUMNS
  if is_ordered:  # Sort clients so that similar ones share a column.
    counts = counts[np.lexsort((counts.max(axis=1), counts.argmax(axis=1)))]
    x_label = "clients, those with the same largest class side by side"
  columns = merge_rows(counts, _MAX_LABEL_COLUMNS)
  members = merge_rows(np.ones((num_clients, 1)), _MAX_LABEL_COLUMNS)[:, 0]
  # A column shows the mean size of its clients.
  sizes = columns.sum(axis=1) / members
  shares = _shares(merge_rows(columns.T, _MAX_LABEL_ROWS))
  above, below = _frames(
    _columns(found, names, is_ordered=is_ordered),
    num_classes,
    float(sizes.max()),
    x_label,
    max(_CLIENT_WIDTH, names.width if names.fit_side_by_side else 0),
  )
  shades = heat_map.shades_for(shares)
  return below.drawing(
    identifier,
    f"Labels of {num_clients:,} clients",
    f"Columns are clients, rows are the {num_classes:,} classes, the first on "
    "top. Darker is a larger share of the client's examples. Bars above show "
    "how many examples each client has.",
    [
      *above.axes(),
      Text("examples", above.left, 9),
      Path(_bars(sizes, above), "bars quiet"),
      *below.axes(has_grid=False),
      Text("class; shade: % of examples", below.left, below.top - 5),
      heat_map.cells(shares, shades, below),
      heat_map.legend(shades, below),
    ],
  )


def _shares(labels: np.ndarray) -> np.ndarray:
  """Returns each count as a percentage of its column; NaN for a count of 0."""
  with np.errstate(invalid="ignore"):
    shares = 100 * labels / labels.sum(axis=0)
  shares[shares == 0] = np.nan
  return shares


def _columns(found: Labels, names: ClientNames, *, is_ordered: bool) -> Scale:
  """Returns the scale of the clients, without ticks if they are reordered."""
  count = len(found.clients)
  if is_ordered:  # Column numbers would look like client ids.
    return Scale(-0.5, count - 0.5, ())
  if names.fit_side_by_side:
    ticks = tuple(float(place) for place in range(count))
    words = [names.short(int(client)) for client in found.clients]
  else:
    ticks = _places(count).ticks
    words = [f"{found.clients[int(tick)]:,}" for tick in ticks]
  return Scale(-0.5, count - 0.5, ticks, names=tuple(words))


def _places(count: int) -> Scale:
  """Returns a scale from -0.5 to `count` - 0.5, with ticks at integers."""
  return linear(-0.5, count - 0.5, num_ticks=10, is_tight=True, is_whole=True)


def _frames(
  clients: Scale, num_classes: int, largest: float, x_label: str, column: int
) -> tuple[Frame, Frame]:
  """Returns the frames of sizes and labels; a client takes `column` pixels."""
  classes = _places(num_classes)
  num_clients = int(clients.high - clients.low)
  width = min(_LEFT + column * num_clients + _RIGHT, _MAX_WIDTH)
  height = min(_CLASS_HEIGHT * num_classes + 56, _MAX_HEIGHT)
  above = Frame(
    Scale(clients.low, clients.high, ()),
    linear(0, largest, num_ticks=2),
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
    x_label=x_label,
    width=width,
    height=_SIZES_HEIGHT + height,
    top=_SIZES_HEIGHT + 14,
    left=_LEFT,
    right=_RIGHT,
  )
  return above, below


def _bars(sizes: np.ndarray, frame: Frame) -> str:
  x = np.round(
    np.linspace(frame.left, frame.width - frame.right, len(sizes) + 1)
  )
  floor, tops = frame.y_pixels([0])[0], frame.y_pixels(sizes)
  gap = 1 if len(sizes) <= 100 else 0
  return "".join(
    box_path(left, top, right - left - gap, floor - top)
    for left, right, top in zip(x, x[1:], tops, strict=False)
  )


def build(task: TaskRuns) -> section.Section:
  """Returns the section: a chart of labels in the first run that has labels."""
  title = "Labels of the split"
  for run in task.runs:
    found = None if run.labels is None else labels_of_table(run.labels)
    if found is not None and found.counts.sum() > 0:
      clients, classes = found.counts.shape
      chart = draw_labels(found, task.clients, f"{task.identifier}-labels")
      figure = Figure(chart, f"{clients:,} clients, {classes:,} classes")
      return section.build(
        title, "labels", task, seed=run.seeds.data, figures=[figure]
      )
  return section.Section(title, absence="no run has recorded them (labels.csv)")
