"""Section: maps of the coefficients that rules give to clients' updates."""

import dataclasses

import numpy as np
import pandas as pd

from tff_fair.experiments.presenting.report import (
  final_measures,
  heat_map,
  section,
)
from tff_fair.experiments.presenting.report.frame import Chart, Figure, Frame
from tff_fair.experiments.presenting.report.scale import Scale, linear
from tff_fair.experiments.presenting.report.task_runs import (
  ClientNames,
  Method,
  TaskRuns,
)
from tff_fair.experiments.runs.run import ROUND, Run

_COEFFICIENT = "coefficient"
_MAX_COLUMNS, _MAX_ROWS = 100, 60
_MAX_NAMES = 16  # The most client names that fit on a phone, one below another.


@dataclasses.dataclass(frozen=True)
class Coefficients:
  """The coefficients in a run of `method`; `matrix` describes `values`."""

  method: Method
  run: Run
  num_rounds: int
  clients: np.ndarray
  is_ordered: bool  # Whether clients are in order of score, the worst first.
  values: np.ndarray


def coefficients_of_method(
  method: Method, share: float = 1
) -> Coefficients | None:
  """Returns the coefficients of a method's first run that recorded any.

  `share` scales the limits on the rows and columns of `values`.
  """
  for run in method.runs:
    if (table := _coefficient_table(run)) is not None:
      order, is_ordered = client_order(run)
      limits = int(_MAX_ROWS * share), int(_MAX_COLUMNS * share)
      values = matrix(table, order, *limits)
      num_rounds = int(table[ROUND].max())
      return Coefficients(method, run, num_rounds, order, is_ordered, values)
  return None


def _coefficient_table(run: Run) -> pd.DataFrame | None:
  if run.cohorts is None:
    return None
  table = run.cohorts[[ROUND, "client_id", _COEFFICIENT]]
  values = pd.to_numeric(table[_COEFFICIENT], errors="coerce")
  table = table.assign(**{_COEFFICIENT: values}).dropna()
  return None if table.empty else table


def client_order(run: Run) -> tuple[np.ndarray, bool]:
  """Returns a run's client ids, and whether all clients have scores.

  If so, the client with the worst score is first; otherwise, ids ascend.
  """
  scores = final_measures.scores_of_run(run)
  clients = set() if run.cohorts is None else set(run.cohorts["client_id"])
  if not clients <= set(scores.index):
    return np.array(sorted(clients | set(scores.index))), False
  order = scores.sort_values(
    kind="stable", ascending=run.score.higher_is_better
  ).index
  return order.to_numpy(), True


def matrix(
  table: pd.DataFrame, order: np.ndarray, max_rows: int, max_columns: int
) -> np.ndarray:
  """Returns mean coefficients, by block of clients and block of rounds."""
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
  """Draws a map of a run's coefficients, rounds by clients."""
  shades = heat_map.shades_for(found.values, from_zero=False)
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
      heat_map.cells(found.values, shades, frame),
      heat_map.legend(shades, frame, "coefficient"),
    ],
  )


def _has_names(found: Coefficients) -> bool:
  return len(found.clients) <= _MAX_NAMES


def _rows_of_map(found: Coefficients, names: ClientNames) -> Scale:
  """Returns the map's vertical scale, with the first client on top."""
  count = len(found.clients)
  if _has_names(found):
    places = [float(place) for place in range(count)]
    words = [names.short(int(client)) for client in found.clients]
  elif found.is_ordered:
    # Row numbers would look like client ids, so name only the ends.
    places, words = [0.0, count - 1.0], ["worst", "best"]
  else:
    places = list(linear(0, count - 1, is_tight=True, is_whole=True).ticks)
    words = [f"{found.clients[int(place)]:,}" for place in places]
  return Scale(count - 0.5, -0.5, tuple(places), names=tuple(words))


# With more methods than this, maps are coarser, which keeps the page small.
_FULL_MAPS = 10


def build(task: TaskRuns) -> section.Section:
  """Returns the section: a map of each method's coefficients in one run."""
  share = min(1.0, (_FULL_MAPS / max(1, len(task.methods))) ** 0.5)
  found_maps = (coefficients_of_method(m, share) for m in task.methods)
  maps = [found for found in found_maps if found is not None]
  title = "Coefficients over rounds"
  if not maps:
    absence = "no run has recorded them (coefficient in cohorts.csv)"
    return section.Section(title, absence=absence)
  prefix = f"{task.identifier}-coefficients-"
  figures = [
    Figure(
      draw_coefficients(found, task.clients, f"{prefix}{found.method.number}"),
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
