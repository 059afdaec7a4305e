"""Sections: coefficients of clients over rounds, and labels of the split."""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from tff_fair.experiments.presenting.report import (
  final_measures,
  section,
)
from tff_fair.experiments.presenting.report.frame import (
  Chart,
  Figure,
  Frame,
  Group,
  Path,
  Text,
  box_path,
)
from tff_fair.experiments.presenting.report.scale import (
  Scale,
  linear,
  number_text,
)
from tff_fair.experiments.presenting.report.section import Section
from tff_fair.experiments.presenting.report.task_runs import (
  ClientNames,
  MethodRuns,
  TaskRuns,
)
from tff_fair.experiments.runs.run import ROUND, Run

# A matrix as shades: one hue for positive values, one for negative ones.
#
# Shades begin at zero. Where all values are far from it and near each other,
# they may span the range of the values instead, and the key says so.


NUM_SHADES = 8  # The style has them as .p1 to .p8 and .n1 to .n8.
_KEY_WIDTH = 12
_EQUAL = 1e-4  # Values that differ by this share of the largest are the same.


@dataclasses.dataclass(frozen=True)
class Shades:
  """The shades of values: equal steps on both sides of zero, or from a start.

  It is clipped where there are values beyond the last shade.
  """

  step: float
  num_positive: int
  num_negative: int
  is_clipped: bool
  start: float = 0.0

  def of(self, values: np.ndarray) -> np.ndarray:
    """Returns int: 1, 2, ... from zero up, -1, -2, ... from zero down.

    NaN is 0, which is not drawn.
    """
    with np.errstate(invalid="ignore"):
      # A value on the edge, as the largest, belongs to the shade below.
      steps = np.ceil(np.abs(values - self.start) / self.step - 1e-9)
      shades = np.where(
        values < 0,
        -np.clip(steps, 1, max(self.num_negative, 1)),
        np.clip(steps, 1, max(self.num_positive, 1)),
      )
    return np.where(np.isnan(values), 0, shades).astype(int)

  def text(self, steps: int) -> str:
    """Returns the value that is so many steps from the start, rounded."""
    value = self.start + steps * self.step
    if self.start:  # Decimals that distinguish shades.
      decimals = max(0, -math.floor(math.log10(self.step)))
      return number_text(value, decimals)
    return f"{float(f'{value:.2g}'):g}".replace("-", "−")


def shades_for(values: np.ndarray, *, from_zero: bool = True) -> Shades:
  """Returns shades that fit a matrix, without its few largest values."""
  present = values[np.isfinite(values)]
  if not present.size or not np.abs(present).max() > 0:
    return Shades(1.0, 1, 0, is_clipped=False)
  largest = float(np.abs(present).max())
  usual = float(np.quantile(np.abs(present), 0.99))
  is_clipped = usual > 0 and largest > 2 * usual
  limit = usual if is_clipped else largest
  smallest = float(present.min())
  if not from_zero and limit / 2 < smallest < (1 - _EQUAL) * limit:
    step = (limit - smallest) / NUM_SHADES
    return Shades(step, NUM_SHADES, 0, is_clipped, smallest)
  step = limit / NUM_SHADES
  low, high = max(-present.min(), 0), max(present.max(), 0)
  num_positive, num_negative = (
    int(min(np.ceil(side / step - 1e-9), NUM_SHADES)) for side in (high, low)
  )
  return Shades(step, num_positive, num_negative, is_clipped)


def cells(values: np.ndarray, shades: Shades, frame: Frame) -> Group:
  """Draws a matrix over the frame, a path for each shade; NaN is empty."""
  found = shades.of(values)
  rows, columns = found.shape
  # Rounded first: neighbours share an edge.
  x = np.round(np.linspace(frame.left, frame.width - frame.right, columns + 1))
  y = np.round(np.linspace(frame.top, frame.height - frame.bottom, rows + 1))
  paths: dict[int, list[str]] = {}
  for row in range(rows):
    # Cells of one shade side by side are one box.
    starts = np.flatnonzero(np.diff(found[row], prepend=found[row, 0] + 1))
    for start, end in zip(starts, [*starts[1:], columns], strict=True):
      if shade := int(found[row, start]):
        left, top = x[start], y[row]
        paths.setdefault(shade, []).append(
          box_path(left, top, x[end] - left, y[row + 1] - top)
        )
  return Group(
    [Path("".join(paths[n]), class_name(n)) for n in sorted(paths)], "cells"
  )


def key(shades: Shades, frame: Frame, title: str = "") -> Group:
  """Draws the key of the shades, in the right margin of a frame."""
  numbers = [
    *range(shades.num_positive, 0, -1),
    *range(-1, -shades.num_negative - 1, -1),
  ]
  left, height = frame.width - frame.right + 10, frame.inner_height
  edges = frame.top + height * np.arange(len(numbers) + 1) / len(numbers)
  boxes = [
    Path(box_path(left, top, _KEY_WIDTH, bottom - top), class_name(n))
    for n, top, bottom in zip(numbers, edges, edges[1:], strict=False)
  ]
  marks = {shades.num_positive: 0, 0: shades.num_positive}
  if shades.num_negative:
    marks[-shades.num_negative] = len(numbers)
  beyond = "≥ " if shades.is_clipped else ""
  names = [
    Text(
      f"{beyond if step > 0 else ''}{shades.text(step)}",
      left + _KEY_WIDTH + 5,
      edges[place] + 4,
    )
    for step, place in marks.items()
  ]
  if title:
    names.append(Text(title, frame.width, frame.top - 12, "end"))
  return Group([*boxes, *names], "cells")


def class_name(shade: int) -> str:
  """Returns the class of a shade for the style sheet."""
  return f"p{shade}" if shade > 0 else f"n{-shade}"


# The labels of each client, as a heat map below the sizes of clients.


_MAX_LABEL_COLUMNS, _MAX_LABEL_ROWS = 200, 100
_LEFT, _RIGHT, _SIZES_HEIGHT = 46, 70, 110
_MAX_WIDTH, _MAX_HEIGHT = 980, 300
_CLIENT_WIDTH, _CLASS_HEIGHT = 40, 26  # At most.


class Labels(NamedTuple):
  """How many examples clients have: their ids, and float[clients, classes]."""

  clients: np.ndarray
  counts: np.ndarray


def labels_of_table(table: pd.DataFrame) -> Labels:
  """Returns the labels of a table: client_id, and a column for each class."""
  table = table.sort_values("client_id")
  counts = table.drop(columns="client_id").apply(pd.to_numeric, errors="coerce")
  return Labels(
    table["client_id"].to_numpy(int), counts.fillna(0).to_numpy(float)
  )


def merged(counts: np.ndarray, limit: int) -> np.ndarray:
  """Adds up neighbouring rows so that at most `limit` remain."""
  if len(counts) <= limit:
    return counts
  starts = -(-np.arange(limit) * len(counts) // limit)
  return np.add.reduceat(counts, starts, axis=0)


def draw_labels(found: Labels, names: ClientNames, identifier: str) -> Chart:
  """Draws the labels of clients."""
  counts = found.counts
  num_clients, num_classes = counts.shape
  is_ordered = num_clients > _MAX_LABEL_COLUMNS
  if is_ordered:  # Similar clients share a column.
    counts = counts[np.lexsort((counts.max(axis=1), counts.argmax(axis=1)))]
  columns = merged(counts, _MAX_LABEL_COLUMNS)
  members = merged(np.ones((num_clients, 1)), _MAX_LABEL_COLUMNS)[:, 0]
  # A column shows the mean size of its clients.
  sizes = columns.sum(axis=1) / members
  shares = _shares(merged(columns.T, _MAX_LABEL_ROWS))
  above, below = _frames(
    _columns(found, names, is_ordered=is_ordered),
    num_classes,
    float(sizes.max()),
    "clients, those with the same largest class side by side"
    if is_ordered
    else "client",
    max(_CLIENT_WIDTH, names.width if names.fit_side_by_side else 0),
  )
  shades = shades_for(shares)
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
      cells(shares, shades, below),
      key(shades, below),
    ],
  )


def _shares(labels: np.ndarray) -> np.ndarray:
  """Returns each count as a percentage of its column; NaN for no count."""
  with np.errstate(invalid="ignore"):
    shares = 100 * labels / labels.sum(axis=0)
  shares[shares == 0] = np.nan
  return shares


def _columns(found: Labels, names: ClientNames, *, is_ordered: bool) -> Scale:
  """Returns the scale of the clients; of clients out of order without ticks."""
  count = len(found.clients)
  if is_ordered:  # A number of a column would look like that of a client.
    return Scale(-0.5, count - 0.5, ())
  ticks = linear(
    -0.5, count - 0.5, num_ticks=10, is_tight=True, is_whole=True
  ).ticks
  if names.fit_side_by_side:
    ticks = tuple(float(place) for place in range(count))
  clients = [int(found.clients[int(tick)]) for tick in ticks]
  words = [
    names.short(client) if names.fit_side_by_side else f"{client:,}"
    for client in clients
  ]
  return Scale(-0.5, count - 0.5, ticks, names=tuple(words))


def _frames(
  clients: Scale, num_classes: int, largest: float, x_label: str, column: int
) -> tuple[Frame, Frame]:
  """Returns the frame of the clients' sizes, and that of their labels.

  A client is `column` wide, if there is room.
  """
  classes = linear(
    -0.5, num_classes - 0.5, num_ticks=10, is_tight=True, is_whole=True
  )
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


# The coefficient of each client in each round, as a heat map.


_COEFFICIENT = "coefficient"
_MAX_COLUMNS, _MAX_ROWS = 100, 60
_MAX_NAMES = 16  # Of clients, one below the other: room for them on a phone.


@dataclasses.dataclass(frozen=True)
class Coefficients:
  """The coefficients of a run, as `matrix` returns them.

  The clients are ordered where the one with the worst score comes first;
  otherwise they are in the order of their ids.
  """

  method: MethodRuns
  run: Run
  num_rounds: int
  clients: np.ndarray
  is_ordered: bool
  values: np.ndarray


def coefficients_of_method(
  method: MethodRuns, share: float = 1
) -> Coefficients | None:
  """Returns the coefficients of a method's first run that has some."""
  for run in method.runs:
    if (table := _of_run(run)) is not None:
      order, is_ordered = client_order(run)
      values = matrix(
        table, order, int(_MAX_ROWS * share), int(_MAX_COLUMNS * share)
      )
      num_rounds = int(table[ROUND].max())
      return Coefficients(method, run, num_rounds, order, is_ordered, values)
  return None


def _of_run(run: Run) -> pd.DataFrame | None:
  """Returns the coefficients of a run by round and client; None without."""
  if run.cohorts is None:
    return None
  table = run.cohorts[[ROUND, "client_id", _COEFFICIENT]]
  values = pd.to_numeric(table[_COEFFICIENT], errors="coerce")
  table = table.assign(**{_COEFFICIENT: values}).dropna()
  return None if table.empty else table


def client_order(run: Run) -> tuple[np.ndarray, bool]:
  """Returns ids from the worst score to the best, and whether that is so.

  If a client that took part has no score, the order is that of the ids.
  """
  scores = final_measures.scores_of_run(run)
  clients = set() if run.cohorts is None else set(run.cohorts["client_id"])
  if not clients <= set(scores.index):
    return np.array(sorted(clients | set(scores.index))), False
  ordered = scores.sort_values(
    kind="stable", ascending=run.score.higher_is_better
  )
  return ordered.index.to_numpy(), True


def matrix(
  table: pd.DataFrame, order: np.ndarray, max_rows: int, max_columns: int
) -> np.ndarray:
  """Returns float[rows, columns], a cell the mean over its clients and rounds.

  It is NaN where no client took part.
  """
  num_rounds = int(table[ROUND].max())
  rows, columns = min(len(order), max_rows), min(num_rounds, max_columns)
  rank = pd.Series(np.arange(len(order)), index=order)
  row = rank[table["client_id"]].to_numpy() * rows // len(order)
  column = (table[ROUND].to_numpy() - 1) * columns // num_rounds
  sums, counts = np.zeros((rows, columns)), np.zeros((rows, columns))
  np.add.at(sums, (row, column), table[_COEFFICIENT].to_numpy())
  np.add.at(counts, (row, column), 1)
  with np.errstate(invalid="ignore"):
    return sums / counts


def draw_coefficients(
  found: Coefficients, names: ClientNames, identifier: str
) -> Chart:
  """Draws the coefficients of a run."""
  shades = shades_for(found.values, from_zero=False)
  frame = Frame(
    linear(0.5, found.num_rounds + 0.5, is_tight=True, is_whole=True),
    _rows_of_map(found, names),
    x_label="round",
    left=max(46, names.width + 14) if _has_names(found) else 46,
    right=70,
    top=28,
  )
  rows = f"clients, the {found.run.score.worst} at the end on top"
  return frame.drawing(
    identifier,
    f"Coefficients, {found.method.label}, seed {found.run.seeds}",
    f"Rounds 1 to {found.num_rounds} from left to right; rows are "
    f"{rows if found.is_ordered else 'clients by number'}. Darker is a larger "
    "coefficient.",
    [
      *frame.axes(has_grid=False),
      cells(found.values, shades, frame),
      key(shades, frame, "coefficient"),
    ],
  )


def _has_names(found: Coefficients) -> bool:
  return len(found.clients) <= _MAX_NAMES


def _rows_of_map(found: Coefficients, names: ClientNames) -> Scale:
  """Returns the scale of the clients, which goes downwards."""
  count = len(found.clients)
  if _has_names(found):
    places = [float(place) for place in range(count)]
    words = [names.short(int(client)) for client in found.clients]
  elif found.is_ordered:
    # A number of a row would look like that of a client.
    places, words = [0.0, count - 1.0], ["worst", "best"]
  else:
    places = list(linear(0, count - 1, is_tight=True, is_whole=True).ticks)
    words = [f"{found.clients[int(place)]:,}" for place in places]
  return Scale(count - 0.5, -0.5, tuple(places), names=tuple(words))


# With more methods than this, the maps become coarser: the page stays small.
_FULL_MAPS = 10


def build_coefficients(task: TaskRuns) -> Section:
  """Returns the section: a map for each method, of its first seed."""
  share = min(1.0, (_FULL_MAPS / max(1, len(task.methods))) ** 0.5)
  maps = [
    found
    for method in task.methods
    if (found := coefficients_of_method(method, share)) is not None
  ]
  title = "Coefficients over rounds"
  if not maps:
    return Section(
      title, absence="no run has recorded them (coefficient in cohorts.csv)"
    )
  figures = [
    Figure(
      draw_coefficients(
        found,
        task.clients,
        f"{task.identifier}-coefficients-{found.method.number}",
      ),
      f"{found.method.label}, seed {found.run.seeds}",
      class_=f"m{found.method.number}",
    )
    for found in maps
  ]
  return section.build(
    title,
    "coefficients",
    task,
    figures=figures,
    is_ordered=all(found.is_ordered for found in maps),
    shown={found.method.number for found in maps},
  )


def build_labels(task: TaskRuns) -> Section:
  """Returns the section: the labels in the first run that has them."""
  title = "Labels of the split"
  for run in task.runs:
    if run.labels is None:
      continue
    found = labels_of_table(run.labels)
    if found.counts.size and found.counts.sum() > 0:
      clients, classes = found.counts.shape
      chart = draw_labels(found, task.clients, f"{task.identifier}-labels")
      figure = Figure(chart, f"{clients:,} clients, {classes:,} classes")
      return section.build(
        title, "labels", task, seed=run.seeds.data, figures=[figure]
      )
  return Section(title, absence="no run has counted them (labels.csv)")
