"""Defines measures of the gaps between groups of people, over all clients."""

import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from tff_fair.experiments.analysis import measures
from tff_fair.experiments.analysis.client_results import Clients
from tff_fair.experiments.analysis.measures import Measure
from tff_fair.experiments.errors import RunError
from tff_fair.experiments.spec.scores import Score
from tff_fair.metrics import group_gaps
from tff_fair.metrics.group_gaps import GroupCounts
from tff_fair.metrics.vectors import Vector

NAMES = group_gaps.NAMES
_GROUP_SEPARATOR = "@"


def columns(counts: Sequence[GroupCounts]) -> dict[str, np.ndarray]:
  """Returns clients' counts as table columns, one for each field and group."""
  found = {}
  for field, of_clients in zip(
    GroupCounts._fields, zip(*counts, strict=True), strict=True
  ):
    for group, values in enumerate(np.stack(of_clients).T):
      found[f"{field}{_GROUP_SEPARATOR}{group}"] = values
  return found


def clients_of(table: pd.DataFrame, score: Score) -> Clients:
  """Returns the results of clients that have a score, with group counts."""
  clients = measures.clients_of(table, score)
  known = table.set_index("client_id").loc[clients.ids]
  counts = {
    name: known[name].to_numpy(np.float64)
    for name in table
    if _GROUP_SEPARATOR in name
  }
  return clients._replace(extra_columns={**clients.extra_columns, **counts})


def find(name: str, score: Score) -> Measure:
  """Returns the measure called `name`: a gap, or else a measure of `score`."""
  if name not in NAMES:
    return measures.by_name(score)[name]
  return Measure(
    f"{name.replace('_', ' ').capitalize()} gap",
    higher_is_better=False,
    highest=1.0,
    sign=" %",
    statistic=functools.partial(_gap, name),
  )


def _gap(name: str, clients: Clients, weights: Vector) -> Vector:
  counts = GroupCounts(
    *(_counts(field, clients) for field in GroupCounts._fields)
  )
  totals = GroupCounts(*(of_clients.sum(0) for of_clients in counts))
  shown = group_gaps.has_enough_examples(name, totals)
  if shown.sum() < 2:
    raise RunError(
      f"The {name} gap needs two groups with {group_gaps.LEAST_EXAMPLES} test "
      "rows each, and as many validation rows, of the kind that it counts; "
      "name another criterion, or give more rows."
    )
  return group_gaps.weighted_gap(name, counts, weights, shown)


def _counts(field: str, clients: Clients) -> npt.NDArray[np.int64]:
  """Returns the counts `field` as an array, int64[clients, groups]."""
  prefix = f"{field}{_GROUP_SEPARATOR}"
  found = [
    v for name, v in clients.extra_columns.items() if name.startswith(prefix)
  ]
  return np.stack(found, axis=-1).astype(np.int64)
