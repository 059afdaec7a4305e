"""Encodes a table's columns as a model's input x.

The columns of x are, in this order:

- each column of numbers, standardized: z = (number - mean) / deviation with the
  moments of all clients' training rows (`moments`); 0 if the number is missing,
  and everywhere if all training rows have the same number;
- for each column of numbers with missing values in training: 1 if the number is
  missing, else 0;
- for each column of texts: a constant 0 for all texts that do not occur in any
  client's training rows, then a one-hot encoding of those that do, starting
  with the missing text if a training row lacks a text. No client learns what an
  unseen text means, so it must not affect the model.

All of this is computed in float32, in exactly the steps of `layers`.
"""

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np

from tasks.tabular import moments
from tasks.tabular.columns import Column, Numbers, Texts
from tasks.tabular.population import ClientRows


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumberFeature:
  """How a column of numbers enters x: as (number - shift) * scale + offset."""

  name: str  # Name of the column.
  shift: float  # A float32 close to the mean.
  scale: float  # 1 / standard deviation; 0 if all numbers are equal.
  # (shift - mean) * scale: corrects the rounding of the mean to float32.
  offset: float
  is_flagged: bool  # Whether any training row lacks the number.


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextFeature:
  """How a column of texts enters x."""

  name: str  # Name of the column.
  # The texts that have a column of x, in ascending order; "" means missing.
  values: tuple[str, ...]


Feature = NumberFeature | TextFeature


def fit(
  columns: Mapping[str, Column], train: ClientRows
) -> tuple[Feature, ...]:
  """Derives from training rows how each column enters x."""
  return tuple(
    _fit_numbers(name, column, train)
    if isinstance(column, Numbers)
    else _fit_texts(name, column, train)
    for name, column in columns.items()
  )


def _fit_numbers(
  name: str, column: Numbers, train: ClientRows
) -> NumberFeature:
  values = column.values[train.rows]
  found = moments.of_federation(moments.of_clients(values, train.sizes))
  with np.errstate(divide="ignore", over="ignore"):
    scale = np.float32(1 / found.deviation)
  # If all numbers are almost equal, the scale is not finite in float32.
  scale = scale if np.isfinite(scale) else np.float32(0)
  shift = np.float32(found.mean)
  return NumberFeature(
    name=name,
    shift=float(shift),
    scale=float(scale),
    offset=float(np.float32((float(shift) - found.mean) * scale)),
    is_flagged=bool(np.isnan(values).any()),
  )


def _fit_texts(name: str, column: Texts, train: ClientRows) -> TextFeature:
  # The union of the clients' texts. A missing text has code -1.
  texts = ("", *column.values)
  counts = np.bincount(column.codes[train.rows] + 1, minlength=len(texts))
  return TextFeature(
    name=name, values=tuple(texts[k] for k in np.flatnonzero(counts))
  )


def raw_values(
  columns: Mapping[str, Column], rows: np.ndarray
) -> dict[str, np.ndarray]:
  """Returns the values of `rows` by column.

  Numbers are float32[n], NaN if missing; texts are object[n], "" if missing.
  """
  return {
    name: column.values[rows].astype(np.float32)
    if isinstance(column, Numbers)
    # The code -1, a missing text, selects the appended "".
    else np.array([*column.values, ""], object)[column.codes[rows]]
    for name, column in columns.items()
  }


class Encoder:
  """Encodes the rows of a table as x."""

  def __init__(
    self, columns: Mapping[str, Column], features: Sequence[Feature]
  ) -> None:
    """Looks up the position in x of every text."""
    numbers = [f for f in features if isinstance(f, NumberFeature)]
    self._numbers = [columns[f.name].values for f in numbers]
    self._shift, self._scale, self._offset = (
      np.array([(f.shift, f.scale, f.offset) for f in numbers], np.float32)
      .reshape(-1, 3)
      .T
    )
    self._is_flagged = np.array([f.is_flagged for f in numbers], bool)
    width = len(numbers) + int(self._is_flagged.sum())
    # For each column of texts: codes, and each code's position and value in x.
    self._texts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for feature in features:
      if isinstance(feature, TextFeature):
        column = columns[feature.name]
        assert isinstance(column, Texts)
        places = _places(column, feature)
        self._texts.append((column.codes, width + places, places > 0))
        width += 1 + len(feature.values)
    self.width = width

  def __call__(self, rows: np.ndarray) -> np.ndarray:
    """Returns x, float32[n, width], of the rows with the given indices."""
    x = np.zeros([len(rows), self.width], np.float32)
    count = len(self._numbers)
    if count:
      raw = np.stack([values[rows] for values in self._numbers], axis=1)
      is_missing = np.isnan(raw)
      z = (raw - self._shift) * self._scale + self._offset
      flags = is_missing[:, self._is_flagged]
      x[:, :count] = np.where(is_missing, np.float32(0), z)
      x[:, count : count + flags.shape[1]] = flags
    for codes, places, is_known in self._texts:
      found = codes[rows]
      x[np.arange(len(rows)), places[found]] = is_known[found]
    return x


def _places(column: Texts, feature: TextFeature) -> np.ndarray:
  """Returns each code's position in the one-hot encoding, int[codes + 1].

  The last position is that of code -1; unseen texts have position 0.
  """
  known = {value: 1 + k for k, value in enumerate(feature.values)}
  return np.array([known.get(value, 0) for value in (*column.values, "")])
