"""Finds and checks clients' weights, for runs with client_weighting=column."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from tasks.data_error import DataError


def of_rows(
  values: np.ndarray, rows: Mapping[str, np.ndarray], source: str
) -> dict[str, float]:
  """Returns weights by client; each client's rows must have the same weight."""
  found = {}
  for name, positions in rows.items():
    numbers = np.unique(values[positions].astype(np.float64))
    if len(numbers) > 1:
      raise DataError(
        source,
        f"client {name!r} has the weights {numbers[0]:g} and {numbers[1]:g}; "
        "give it the same weight in all its rows.",
      )
    found[name] = float(numbers[0])
  return found


def as_array(
  weights: Mapping[str, float], names: Iterable[str], source: str
) -> np.ndarray:
  """Returns the weights of the clients `names`, float64[clients]."""
  found = []
  for name in names:
    if name not in weights:
      raise DataError(source, f"client {name!r} has no weight; give it one.")
    weight = float(weights[name])
    if not 0 < weight < np.inf:
      raise DataError(
        source,
        f"client {name!r} has the weight {weight:g}, expected a number above "
        "0.",
      )
    found.append(weight)
  return np.array(found)


def of_parts(
  values: np.ndarray,
  names: Sequence[str],
  halves: Sequence[Sequence[np.ndarray]],
  source: str,
) -> np.ndarray:
  """Returns the weights of the clients `names`, float64[clients].

  `values` has a weight for each row. `halves` has the clients' train rows, then
  their test rows, each as positions in `values`.
  """
  rows = dict(
    zip(names, map(np.concatenate, zip(*halves, strict=True)), strict=True)
  )
  return as_array(of_rows(values, rows, source), names, source)
