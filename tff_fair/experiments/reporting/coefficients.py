"""The coefficient of each client in each round, as a heat map."""

import dataclasses

import numpy as np
import pandas as pd

from tff_fair.experiments.reporting import final_scores, heat_map
from tff_fair.experiments.reporting.client_names import ClientNames
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import Method
from tff_fair.experiments.reporting.scale import Scale, linear
from tff_fair.experiments.runs.run import ROUND, Run

_COEFFICIENT = "coefficient"
_MAX_COLUMNS, _MAX_ROWS = 100, 60
_MAX_NAMES = 20  # Of clients, one below the other.


@dataclasses.dataclass(frozen=True)
class Coefficients:
  """The coefficients of a run.

  Attributes:
    method: The method of the run.
    run: The run.
    num_rounds: Its rounds.
    clients: Ids of its clients, those of the first row first.
    is_ordered: Whether the one with the worst score comes first; otherwise
      they are in the order of their ids.
    values: float[rows, columns], as `matrix` returns them.
  """

  method: Method
  run: Run
  num_rounds: int
  clients: np.ndarray
  is_ordered: bool
  values: np.ndarray


def of_method(method: Method, share: float = 1) -> Coefficients | None:
  """Returns the coefficients of a method's first run that has some.

  Args:
    method: The method.
    share: Share of the largest number of cells, to keep many maps small.
  """
  for run in method.runs:
    if (table := of_run(run)) is not None:
      order, is_ordered = client_order(run)
      values = matrix(
        table, order, int(_MAX_ROWS * share), int(_MAX_COLUMNS * share)
      )
      num_rounds = int(table[ROUND].max())
      return Coefficients(method, run, num_rounds, order, is_ordered, values)
  return None


def of_run(run: Run) -> pd.DataFrame | None:
  """Returns the coefficients of a run: round, client_id, coefficient.

  Returns:
    None if the run has none.
  """
  if run.cohorts is None:
    return None
  table = run.cohorts[[ROUND, "client_id", _COEFFICIENT]]
  values = pd.to_numeric(table[_COEFFICIENT], errors="coerce")
  table = table.assign(**{_COEFFICIENT: values}).dropna()
  return None if table.empty else table


def client_order(run: Run) -> tuple[np.ndarray, bool]:
  """Returns the clients of a run from the worst score to the best.

  Returns:
    Their ids, and whether they are in that order. If a client that took part
    has no score, the order is that of the ids.
  """
  scores = final_scores.of_run(run)
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
  """Returns coefficients; a cell is the mean over its clients and rounds.

  Args:
    table: round, client_id, coefficient.
    order: Ids of all clients, those of the first row first.
    max_rows: With more clients, several share a row.
    max_columns: With more rounds, several share a column.

  Returns:
    float[rows, columns]; NaN where nobody took part.
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


def draw(found: Coefficients, names: ClientNames, identifier: str) -> Markup:
  """Draws the coefficients of a run.

  Args:
    found: The coefficients.
    names: What its clients are called.
    identifier: Unique on the page.
  """
  shades = heat_map.shades_for(found.values, from_zero=False)
  frame = Frame(
    linear(0.5, found.num_rounds + 0.5, is_tight=True, is_whole=True),
    _rows(found, names),
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
    frame.axes(has_grid=False),
    heat_map.cells(found.values, shades, frame),
    heat_map.key(shades, frame, "coefficient"),
  )


def _has_names(found: Coefficients) -> bool:
  return len(found.clients) <= _MAX_NAMES


def _rows(found: Coefficients, names: ClientNames) -> Scale:
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
