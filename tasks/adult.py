"""Income of adults with and without a doctorate: two clients.

Becker and Kohavi, "Adult" (UCI, 1996), divided as in Mohri et al., "Agnostic
Federated Learning" (ICML 2019), and in the bias study of Hu et al.,
"Federated Learning Meets Multi-objective Optimization" (FedMGDA+, 2022).
Logistic regression predicts whether a person earns more than $50,000.

Only the training file defines the features: one for each value of a
categorical column. A value that occurs only in the test file has no feature.
AFL uses only the categorical columns, and so does the default. Columns of
numbers are standardized to mean 0 and standard deviation 1. A missing value,
"?", is a category of its own, or its row is left out (option `missing`).
"""

import dataclasses
import functools
import pathlib
from typing import Literal, NamedTuple

import numpy as np

from tasks import models, options, task
from tasks.data_error import DataError
from tasks.formats import data_files
from tff_fair import declared

_COLUMNS = (
  *("age", "workclass", "fnlwgt", "education", "education-num"),
  *("marital-status", "occupation", "relationship", "race", "sex"),
  *("capital-gain", "capital-loss", "hours-per-week", "native-country"),
)
_NUMBERS = (0, 2, 4, 10, 11, 12)
_CATEGORIES = tuple(k for k in range(len(_COLUMNS)) if k not in _NUMBERS)
_EDUCATION = _COLUMNS.index("education")
_LABELS = {"<=50K": 0, ">50K": 1}
_CLIENTS = ("phd", "non_phd")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(options.TaskOptions):
  """Options of the task `adult`."""

  num_clients: int = declared.value(
    2,
    "Number of clients, always 2: people with and without a doctorate.",
    expects="2",
    is_valid=lambda number: number == 2,
  )
  features: Literal["categorical", "all"] = declared.value(
    "categorical",
    'The columns that become features: only "categorical" ones, as in AFL, '
    'or "all".',
  )
  missing: Literal["value", "leave_out"] = declared.value(
    "value",
    'What to do with "?", a missing value: "value" makes it a category of its '
    'own, "leave_out" leaves the row out.',
  )
  group: Literal["sex", "race"] | None = declared.value(
    None,
    "The groups of people to compare: the run reports how differently the "
    "model treats them. None means no groups.",
  )


class Table(NamedTuple):
  """The rows of the training or the test file, and their labels."""

  rows: np.ndarray  # The cells, str[n, columns].
  labels: np.ndarray  # Class numbers, int32[n].
  num_left_out: int  # The number of rows left out for missing values.


def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, features], y is int32[n], 1 above $50,000.

  `data_dir` has `adult.data` and `adult.test`, or the same names with the
  ending `.gz`, or a folder `adult` with these files.
  """
  del seed
  files = ("adult.data", "adult.test")
  data_dir = data_files.require(
    data_dir, what="Adult", files=" and ".join(files)
  )
  paths = [find(data_dir, name) for name in files]
  tables = [read(path, config.missing) for path in paths]
  encode = _Encoder(tables[0].rows, config.features)
  halves = []
  column = _COLUMNS.index(config.group or "sex")
  group_names = np.unique(np.concatenate([t.rows[:, column] for t in tables]))
  for path, table in zip(paths, tables, strict=True):
    x = encode(table.rows)
    codes = np.searchsorted(group_names, table.rows[:, column])
    is_phd = table.rows[:, _EDUCATION] == "Doctorate"
    clients = [(x[part], table.labels[part]) for part in (is_phd, ~is_phd)]
    for name, (_, labels) in zip(_CLIENTS, clients, strict=True):
      if not len(labels):
        raise DataError(path, f"the client {name} has no rows.")
    halves.append(
      task.Split(
        num_examples=np.array([len(y) for _, y in clients], np.int64),
        load=clients.__getitem__,
        groups=(codes[is_phd], codes[~is_phd]).__getitem__
        if config.group
        else None,
      )
    )
  train, test = halves
  num_features = train.load(0)[0].shape[1]
  num_left_out = sum(table.num_left_out for table in tables)
  return task.Task(
    name="adult",
    description=(
      f"Adult, {num_features} {config.features} features "
      f"({num_left_out:,} rows with missing values left out): 2 clients, "
      f"{task.count_examples(train, test)}"
    ),
    client_names=_CLIENTS,
    train=train,
    test=test,
    element_spec=task.element_spec([num_features]),
    num_classes=2,
    group_names=tuple(group_names.tolist()) if config.group else None,
    keras_model_fn=functools.partial(
      models.mlp, (num_features,), (), 2, model_seed
    ),
    objective=models.class_objective(),
  )


def find(data_dir: pathlib.Path, name: str) -> pathlib.Path:
  """Returns the path of the file `name`, "adult.data" or "adult.test"."""
  names = [
    f"{folder}{name}{ending}"
    for folder in ("", "adult/")
    for ending in ("", ".gz")
  ]
  return data_files.first_existing(data_dir, names, what="Adult")


def read(path: pathlib.Path, missing: str) -> Table:
  """Reads the training or the test file; `missing` is the task's option."""
  rows, labels = [], []
  num_left_out = 0
  with data_files.open_file(path) as file:
    for line_number, line in enumerate(file, 1):
      # The test file begins with a comment; both files end with empty lines.
      if not line.strip() or line.startswith(b"|"):
        continue
      try:
        row, label = _parse(line.decode())
      except ValueError as error:
        raise DataError(f"{path}, line {line_number}", f"{error}.") from error
      if missing == "leave_out" and "?" in row:
        num_left_out += 1
        continue
      rows.append(row)
      labels.append(label)
  if not rows:
    raise DataError(path, "has no rows.")
  return Table(np.array(rows), np.array(labels, np.int32), num_left_out)


def _parse(line: str) -> tuple[list[str], int]:
  *row, label = (field.strip() for field in line.split(","))
  if len(row) != len(_COLUMNS):
    raise ValueError(
      f"has {len(row) + 1} fields, expected {len(_COLUMNS) + 1}: "
      f"{line.strip()[:60]!r}"
    )
  for column in _NUMBERS:
    if not row[column].isdecimal():
      raise ValueError(
        f"{_COLUMNS[column]} must be a number, found {row[column]!r}"
      )
  # Labels of the test file end with a full stop.
  if label.rstrip(".") not in _LABELS:
    raise ValueError(
      f"the label must be {' or '.join(_LABELS)}, found {label!r}"
    )
  return row, _LABELS[label.rstrip(".")]


class _Encoder:
  """Encodes rows as features; the training rows define which features exist."""

  def __init__(self, rows: np.ndarray, features: str) -> None:
    self._values = [
      (column, np.unique(rows[:, column])) for column in _CATEGORIES
    ]
    numbers = rows[:, _NUMBERS].astype(np.float64)
    self._mean = numbers.mean(axis=0)
    # Divides a constant column by 1, so that its training values become 0.
    deviation = numbers.std(axis=0)
    self._deviation = np.where(deviation > 0, deviation, 1)
    self._with_numbers = features == "all"

  def __call__(self, rows: np.ndarray) -> np.ndarray:
    """Returns the features of `rows`, float32[len(rows), features]."""
    features = [
      rows[:, column, np.newaxis] == values for column, values in self._values
    ]
    if self._with_numbers:
      numbers = rows[:, _NUMBERS].astype(np.float64)
      features.append((numbers - self._mean) / self._deviation)
    return np.concatenate(features, axis=1).astype(np.float32)
