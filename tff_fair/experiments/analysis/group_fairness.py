"""Computes gaps between groups of people, over all clients and at each client.

The table of counts has a row for each client and group: `client_id`, `group`,
`examples`, `hits` and, if there is a positive class, `positive_class` (its
name), `positives`, `predicted` and `true_positives`; see
`tff_fair.metrics.group_gaps`.
"""

from __future__ import annotations

import typing
from collections.abc import Sequence
from typing import Any

import numpy as np

from tff_fair.metrics import group_gaps

if typing.TYPE_CHECKING:
  import pandas as pd

GROUP, POSITIVE = "group", "positive_class"
POSITIVE_CLASS_COUNTS = ("positives", "predicted", "true_positives")


def _counts(
  table: pd.DataFrame, names: Sequence[str]
) -> group_gaps.GroupCounts:
  """Sums the counts of each group over all rows of a table."""
  columns = list(group_gaps.GroupCounts._fields)
  known = table.groupby(GROUP)[[c for c in columns if c in table]].sum()
  sums = known.reindex(index=names, columns=columns, fill_value=0)
  return group_gaps.GroupCounts(*sums.to_numpy(np.int64).T)


def _gaps(
  table: pd.DataFrame, names: Sequence[str]
) -> dict[str, group_gaps.GroupGap | None]:
  counts = _counts(table, names)
  known = group_gaps.NAMES if POSITIVE in table else group_gaps.NAMES[:1]
  return {name: group_gaps.group_gap(name, counts) for name in known}


def client_gaps(table: pd.DataFrame) -> pd.DataFrame:
  """Returns each client's gaps and intervals; NaN with too few examples."""
  import pandas as pd  # noqa: PLC0415

  names, rows = sorted(table[GROUP].unique()), []
  for client_id, rows_of_client in table.groupby("client_id"):
    row: dict[str, Any] = {"client_id": client_id}
    for name, gap in _gaps(rows_of_client, names).items():
      row[name] = gap.value if gap else np.nan
      row[f"{name}_low"] = gap.low if gap else np.nan
      row[f"{name}_high"] = gap.high if gap else np.nan
    rows.append(row)
  return pd.DataFrame(rows)


def summarize(table: pd.DataFrame, client_ids: pd.Series) -> dict[str, Any]:
  """Returns the gaps over all clients in `client_ids` together, for JSON."""
  table = table[table["client_id"].isin(client_ids)]
  names = sorted(table[GROUP].unique())
  counts = _counts(table, names)
  of_groups: dict[str, dict[str, float]] = {
    name: {"examples": int(n)}
    for name, n in zip(names, counts.examples, strict=True)
  }
  for share, (part, whole) in group_gaps.shares(counts).items():
    if share == "accuracy" or POSITIVE in table:
      for name, a, b in zip(names, part, whole, strict=True):
        if b >= group_gaps.LEAST_EXAMPLES:
          of_groups[name][share] = float(a / b)
  return {
    "least_examples": group_gaps.LEAST_EXAMPLES,
    **({POSITIVE: table[POSITIVE].iloc[0]} if POSITIVE in table else {}),
    "groups": of_groups,
    "gaps": {
      name: {
        **gap._asdict(),
        "highest": names[gap.highest],
        "lowest": names[gap.lowest],
      }
      if gap
      else {}
      for name, gap in _gaps(table, names).items()
    },
  }
