"""Checks vectors with an entry for each of K clients; computes their mean.

These functions, for the other modules of `metrics`, take lists, tuples, arrays
and pandas Series of any real dtype, and compute in float64.
"""

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

# A mean computed in float32 may exceed [0, 1] by a few rounding errors.
_RANGE_SLACK = 1e-6


def per_client(name: str, values: npt.ArrayLike) -> Vector:
  """Returns `values` as float64[K], K > 0, or raises `ValueError`.

  Values need not be finite. `name` is the argument's name in error messages.
  """
  try:
    vector = np.asarray(values, dtype=np.float64)
  except (TypeError, ValueError) as error:
    raise ValueError(
      f"Expected {name} to be a sequence of numbers, one per client: {error}."
    ) from error
  if vector.ndim != 1:
    raise ValueError(
      f"Expected {name} to have one number per client (rank 1), found the "
      f"shape {vector.shape}; pass one column of it."
    )
  if vector.size == 0:
    raise ValueError(f"Expected {name} of one client or more, found none.")
  return vector


def accuracies_per_client(name: str, values: npt.ArrayLike) -> Vector:
  """Returns `values` as float64[K] in [0, 1], or raises `ValueError`.

  Clips values that exceed the interval by at most float32 rounding.
  """
  vector = per_client(name, values)
  fits = (vector >= -_RANGE_SLACK) & (vector <= 1 + _RANGE_SLACK)
  if not fits.all():
    raise ValueError(
      f"Expected {name} in [0, 1], found {_first(vector, ~fits)}; divide "
      "percentages by 100, and leave clients without a value out."
    )
  return vector.clip(0.0, 1.0)


def errors_per_client(name: str, values: npt.ArrayLike) -> Vector:
  """Returns `values` as float64[K] in [0, inf], or raises `ValueError`."""
  vector = per_client(name, values)
  fits = vector >= 0
  if not fits.all():
    raise ValueError(
      f"Expected {name} in [0, inf], found {_first(vector, ~fits)}; give a "
      "model that diverged the error inf, and leave clients without a value "
      "out."
    )
  return vector


def example_counts_per_client(values: npt.ArrayLike) -> Vector:
  """Returns `values` as positive float64[K], or raises `ValueError`."""
  vector = per_client("num_examples", values)
  fits = np.isfinite(vector) & (vector > 0)
  if not fits.all():
    raise ValueError(
      f"Expected num_examples > 0 and finite, found {_first(vector, ~fits)}; "
      "leave clients without examples out."
    )
  return vector


def check_share(name: str, value: float) -> None:
  """Raises `ValueError` unless `value` is in (0, 1)."""
  if not 0 < value < 1:
    raise ValueError(f"Expected {name} in (0, 1), found {value}.")


def check_same_clients(**vectors: Vector) -> None:
  """Raises `ValueError` unless all vectors have the same number of clients."""
  if len({vector.size for vector in vectors.values()}) > 1:
    found = ", ".join(f"{v.size} in {name}" for name, v in vectors.items())
    raise ValueError(f"Expected one entry per client, found {found}.")


def mean(values: Vector, weights: Vector | None = None) -> Vector:
  """Returns the mean over clients, float64[...], of `values`, float64[..., K].

  Weights are float64[..., K], 0 or more. The mean of equal values is exact: in
  a plain sum, rounding could put it above all of them, so that every client
  would be below average.
  """
  least = values.min(-1)
  above = values - least[..., None]
  if weights is None:
    return np.asarray(least + above.mean(-1))
  return np.asarray(least + (above * weights).sum(-1) / weights.sum(-1))


def _first(vector: Vector, where: npt.NDArray[np.bool_]) -> str:
  position = int(np.argmax(where))
  return f"{vector[position]} at position {position}"
