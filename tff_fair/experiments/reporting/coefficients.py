"""The coefficient of each client in each round, as a heat map."""

import numpy as np
import pandas as pd

from tff_fair.experiments.reporting import final_accuracies, heat_map
from tff_fair.experiments.reporting.frame import Frame
from tff_fair.experiments.reporting.markup import Markup
from tff_fair.experiments.reporting.methods import Method
from tff_fair.experiments.reporting.scale import Scale, linear
from tff_fair.experiments.runs.run import ROUND, Run

_COEFFICIENT = "coefficient"
_MAX_COLUMNS, _MAX_ROWS = 100, 60


def of_run(run: Run) -> pd.DataFrame | None:
  """Returns the coefficients of a run: round, client_id, coefficient.

  Returns:
    None if the run has none.
  """
  if run.cohorts is None or _COEFFICIENT not in run.cohorts:
    return None
  table = run.cohorts[[ROUND, "client_id", _COEFFICIENT]]
  values = pd.to_numeric(table[_COEFFICIENT], errors="coerce")
  table = table.assign(**{_COEFFICIENT: values}).dropna()
  return None if table.empty else table


def client_order(run: Run) -> tuple[np.ndarray, bool]:
  """Returns the clients of a run from the least accurate to the most.

  Returns:
    Their ids, and whether they are in that order. If a client that took part
    has no accuracy, the order is that of the ids.
  """
  accuracies = final_accuracies.of_run(run)
  clients = set() if run.cohorts is None else set(run.cohorts["client_id"])
  if not clients <= set(accuracies.index):
    return np.array(sorted(clients | set(accuracies.index))), False
  return accuracies.sort_values(kind="stable").index.to_numpy(), True


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


def draw(
  method: Method, run: Run, table: pd.DataFrame, share: float, identifier: str
) -> Markup:
  """Draws the coefficients of a run.

  Args:
    method: Its method.
    run: The run.
    table: Its coefficients, as `of_run` returns them.
    share: Share of the largest number of cells, to keep many maps small.
    identifier: Unique on the page.
  """
  order, is_ordered = client_order(run)
  num_rounds = int(table[ROUND].max())
  values = matrix(
    table, order, int(_MAX_ROWS * share), int(_MAX_COLUMNS * share)
  )
  clients = linear(0.5, len(order) + 0.5, is_tight=True, is_whole=True)
  frame = Frame(
    linear(0.5, num_rounds + 0.5, is_tight=True, is_whole=True),
    # Downwards.
    Scale(clients.high, clients.low, clients.ticks),
    x_label="round",
    right=62,
  )
  shades = heat_map.shades_for(values)
  rows = "clients, the least accurate at the end on top"
  return frame.drawing(
    identifier,
    f"Coefficients, {method.label}, seed {run.seed}",
    f"Rounds 1 to {num_rounds} from left to right; rows are "
    f"{rows if is_ordered else 'clients by number'}. Darker is a larger "
    "coefficient.",
    frame.axes(has_grid=False),
    heat_map.cells(values, shades, frame),
    heat_map.key(shades, frame),
  )
