"""Clients from arrays, pandas tables and Hugging Face datasets in memory.

Imports neither pandas nor `datasets`; recognizes objects by their attributes.
"""

import collections
import contextlib
import numbers
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tasks import client_weights
from tasks.data_error import DataError
from tasks.formats import example_checks
from tasks.formats.example_checks import as_text
from tasks.tabular import identifiers, row_task
from tasks.task import Arrays, ElementSpec, Split, element_spec

# The missing values of pandas, as strings.
_MISSING = ("None", "nan", "<NA>", "NaT")
LABELS = ("y", "label", "labels", "target", "targets")

_T = TypeVar("_T")


class ClientCounts(NamedTuple):
  """A client's number of examples and range of classes, read in one pass."""

  num_examples: int
  label_range: tuple[int, ...] = ()  # The least and the largest class number.


class Roles(NamedTuple):
  """The names of a table's columns by role."""

  client: str | None = None  # None if the data is already grouped by client.
  label: str | None = None  # None for the first column named in `LABELS`.
  features: Sequence[str] | None = None  # None for all other columns.
  weight: str | None = None  # The client's weight.
  group: str | None = None  # The group of people that an example belongs to.

  def check_unused(self, name: str, kind: str) -> None:
    """Raises a `DataError` if a role, except `weight`, names a column.

    Call it for data without columns, whose type is `kind`.
    """
    settings = self._replace(weight=None)._asdict()
    for setting, column in settings.items():
      if column is not None:
        raise DataError(
          name, f"{setting}={column!r} names a column, and {kind} has none."
        )


class ArrayClients:
  """Clients whose arrays are in memory."""

  def __init__(self, halves: Sequence[Any], roles: Roles, name: str) -> None:
    """Takes arrays by client, or data that can be converted to such arrays."""
    # Names of the classes, if labels are texts or have names.
    self.class_names: Sequence[str] | None = None
    self.name = name  # The task's name, for errors.
    # 2 for train and test, 1 for only train.
    self.num_halves = len(halves)
    # Clients' weights by name, if a table has them.
    self.weights: dict[str, float] = {}
    self._groups: list[dict[str, np.ndarray]] = []
    read = [
      {k: (x, _labels(y, f"{name}, client {k}")) for k, (x, y) in half.items()}
      for half in (self._read(half, roles, name) for half in halves)
    ]
    kinds = {y.dtype.kind for half in read for _, y in half.values()}
    if not kinds:
      raise DataError(name, "has no clients.")
    if kinds <= set("bUSO"):
      values = sorted(
        {as_text(v) for h in read for _, y in h.values() for v in y}
      )
      number = {value: k for k, value in enumerate(values)}
      self.class_names = values
      read = [
        {
          k: (x, np.array([number[as_text(v)] for v in y], np.int32))
          for k, (x, y) in half.items()
        }
        for half in read
      ]
    elif not (kinds <= set("iu") or kinds == {"f"}):
      raise DataError(
        name,
        "y has labels of several kinds; expected class numbers, texts or "
        "floats.",
      )
    self.is_classifier = kinds != {"f"}  # Whether labels are classes.
    self._halves = read
    self.spec = self._checked_spec(name)  # Specs of `(x, y)`.
    # Names of the groups of people, if a table has them.
    self.group_names = self._number_groups(roles.group)

  def _read(self, half: Any, roles: Roles, name: str) -> dict[str, Arrays]:
    table = _table(half, roles, name)
    if table is None:
      roles.check_unused(name, type(half).__name__)
      if not isinstance(half, Mapping):
        raise DataError(
          name,
          f"found data of type {type(half).__name__}, which does not say whose "
          "examples they are; expected a mapping of clients to (x, y), a "
          "DataFrame or its groupby, a dataset of Hugging Face, or a "
          "ClientData of TFF.",
        )
      pairs = ((k, _pair(v, f"{name}, client {k}")) for k, v in half.items())
      return _by_name(pairs, name)
    x, y, rows, class_names, weights, groups = table
    if groups is not None:
      self._groups.append(
        {k: groups[positions] for k, positions in rows.items()}
      )
    for client, weight in weights.items():
      if self.weights.setdefault(client, weight) != weight:
        raise DataError(
          name,
          f"client {client!r} has the weights {self.weights[client]:g} in "
          f"train and {weight:g} in test; give it one.",
        )
    self.class_names = class_names or self.class_names
    return {client: (x[at], y[at]) for client, at in rows.items()}

  def _number_groups(self, column: str | None) -> Sequence[str] | None:
    """Replaces groups by numbers in the data; returns the groups' names."""
    if column is None:
      return None
    found = [of.astype(str) for half in self._groups for of in half.values()]
    names = [*map(str, np.unique(np.concatenate(found)))]
    source = f"{self.name}: column {column!r}"
    row_task.check_groups(names, source, is_classifier=self.is_classifier)
    self._groups = [
      {k: np.searchsorted(names, of.astype(str)) for k, of in half.items()}
      for half in self._groups
    ]
    return names

  def _checked_spec(self, name: str) -> ElementSpec:
    """Returns the spec of the arrays; checks that all clients share it."""
    first: Arrays | None = None
    for half in self._halves:
      for client, (x, y) in half.items():
        first = first or (x, y)
        place = f"{name}, client {client}"
        if len(x) != len(y):
          raise DataError(
            place, f"x has {len(x):,} examples, y has {len(y):,}."
          )
        if x.dtype.kind not in "biuf":
          raise DataError(place, f"x must be numbers, found {x.dtype}.")
        if 0 in x.shape[1:]:
          raise DataError(
            place,
            f"x has no numbers: its shape is {list(x.shape[1:])} per example.",
          )
        if x.shape[1:] != first[0].shape[1:] or x.dtype != first[0].dtype:
          raise DataError(
            place,
            f"x is {x.dtype}{list(x.shape[1:])} per example, that of another "
            f"client {first[0].dtype}{list(first[0].shape[1:])}.",
          )
        if y.shape[1:] != first[1].shape[1:]:
          raise DataError(
            place,
            f"y has the shape {list(y.shape[1:])} per example, that of another "
            f"client {list(first[1].shape[1:])}.",
          )
        example_checks.check_finite(place, "x", x)
        example_checks.check_finite(place, "y", y)
    assert first is not None
    x, y = first
    return element_spec(
      x.shape[1:],
      "float32" if x.dtype.kind in "bf" else x.dtype.name,
      y_shape=y.shape[1:],
      y_dtype="int32" if self.is_classifier else "float32",
    )

  def names(self, half: int) -> Sequence[str]:
    """Returns the names of the clients in a half: 0 is train, 1 is test."""
    return list(self._halves[half])

  def count(self, half: int, client: str) -> ClientCounts:
    """Returns a client's number of examples and range of classes."""
    y = self._halves[half][client][1]
    is_counted = self.is_classifier and len(y) > 0
    return ClientCounts(
      len(y), (int(y.min()), int(y.max())) if is_counted else ()
    )

  def split(
    self, half: int, names: Sequence[str], num_examples: np.ndarray
  ) -> Split:
    """Returns the clients' data of a half: 0 is train, 1 is test."""
    x_type, y_type = (spec.dtype.as_numpy_dtype for spec in self.spec)

    def load(client_id: int) -> Arrays:
      x, y = self._halves[half][names[client_id]]
      return x.astype(x_type), y.astype(y_type)

    return Split(
      num_examples=num_examples,
      load=load,
      groups=None
      if self.group_names is None
      else lambda client_id: self._groups[half][names[client_id]],
    )


def keys(elements: Any, name: str) -> tuple[Any, Any]:
  """Returns the keys of x and y in a mapping, or 0 and 1 for a pair."""
  if isinstance(elements, Mapping):
    labels = [key for key in elements if key in LABELS]
    if "x" in elements and "y" in elements:
      return "x", "y"
    if len(elements) == 2 and len(labels) == 1:
      (x,) = set(elements) - set(labels)
      return x, labels[0]
  elif isinstance(elements, Sequence) and len(elements) == 2:
    return 0, 1
  raise DataError(
    name,
    f"elements are {_describe(elements)}; expected (x, y), or a mapping of two "
    f"tensors, one of them called {', '.join(LABELS)}.",
  )


def _describe(elements: Any) -> str:
  """Returns a short description of elements, without the values of arrays."""
  if isinstance(elements, np.ndarray):
    return f"{elements.dtype}{list(elements.shape)}"
  if isinstance(elements, tuple):
    return f"({', '.join(map(_describe, elements))})"
  if isinstance(elements, Mapping):
    of_keys = (f"{key!r}: {_describe(e)}" for key, e in elements.items())
    return f"{{{', '.join(of_keys)}}}"
  return reprlib.repr(elements) if isinstance(elements, list) else str(elements)


def _labels(y: np.ndarray, place: str) -> np.ndarray:
  """Returns labels as an array of a single kind, or raises a `DataError`.

  The kinds are class numbers, truth values, strings, and one or t numbers to
  predict, float[n] or float[n, t].
  """
  if y.dtype.kind == "O" and y.ndim == 1:
    if _has_missing(y):
      raise DataError(place, "y has missing values; leave these examples out.")
    y = _as_single_type(y, place)
  kind = y.dtype.kind
  if kind not in "biufUSO":
    raise DataError(
      place,
      f"y holds {y.dtype}; expected class numbers, texts, booleans or numbers "
      "to predict.",
    )
  shape = list(y.shape[1:])
  if y.ndim == 0 or 0 in shape or (kind == "f" and y.ndim > 2):
    raise DataError(
      place,
      f"y has the shape {list(y.shape)}; expected [examples], or "
      "[examples, t] of t numbers to predict.",
    )
  if kind in "bUSO" and y.ndim > 1:
    truths = " for t booleans to predict, y.astype(float)"
    raise DataError(
      place,
      f"y is {y.dtype}{shape} for each example; expected one class. For "
      "classes in one-hot form, give "
      f"y.argmax(axis=1){truths if kind == 'b' else ''}.",
    )
  return y


def _as_single_type(values: np.ndarray, place: str) -> np.ndarray:
  """Converts Python objects to an array of truth values, numbers or strings."""
  kinds: tuple[tuple[type | tuple[type, ...], Any], ...] = (
    ((bool, np.bool_), bool),
    (numbers.Integral, np.int64),
    (numbers.Real, np.float64),
    ((str, bytes), object),
  )
  for python, dtype in kinds:
    if all(isinstance(value, python) for value in values):
      with contextlib.suppress(OverflowError):
        return values.astype(dtype)
  found = sorted({type(value).__name__ for value in values})
  raise DataError(
    place,
    f"y holds values of {' and '.join(found[:3])}; expected class numbers, "
    "texts, booleans or numbers, of one kind.",
  )


def _has_missing(values: np.ndarray) -> bool:
  return any(str(v) in _MISSING for v in values if not isinstance(v, str))


def _by_name(items: Iterable[tuple[Any, _T]], name: str) -> dict[str, _T]:
  """Returns values by client name; names that are numbers become strings."""
  found: dict[str, _T] = {}
  for client, value in items:
    title = as_text(client)
    if title in found:
      raise DataError(
        name,
        f"two clients are called {title!r}, one a number, the other a text of "
        "the same digits; make all names texts, or all numbers.",
      )
    found[title] = value
  return found


def _pair(value: Any, place: str) -> Arrays:
  of_keys = keys(value, place)
  try:
    x, y = (np.asarray(value[key]) for key in of_keys)
  except ValueError as error:
    raise DataError(
      place,
      "x and y must be arrays, with one shape for all examples: "
      f"{str(error).rstrip('.')}.",
    ) from error
  if x.ndim == 0:
    raise DataError(place, f"x is {x.dtype}[]; expected an axis of examples.")
  # Labels of shape [n, 1] become labels of shape [n].
  return x, y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y


class _Table(NamedTuple):
  """A table as arrays."""

  x: np.ndarray  # The inputs.
  y: np.ndarray  # The labels.
  rows: dict[str, np.ndarray]  # The positions of each client's rows.
  class_names: Sequence[str] | None  # Names of the classes.
  weights: dict[str, float]  # Clients' weights, if there is a column for them.
  # The group of people of each row, if there is a column for it.
  groups: np.ndarray | None


def _table(half: Any, roles: Roles, name: str) -> _Table | None:
  """Converts a DataFrame, groupby or dataset; returns None for other data."""
  rows: dict[str, np.ndarray] | None = None
  by: list[str] = [roles.client] if roles.client else []
  if hasattr(half, "indices") and hasattr(half, "obj"):  # A groupby.
    rows = _by_name(
      (
        (key[0] if isinstance(key, tuple) and len(key) == 1 else key, at)
        for key, at in half.indices.items()
      ),
      name,
    )
    by = [c for c in half.size().index.names if c in half.obj.columns]
    # A groupby may have a selection of the columns.
    chosen = half.obj.columns.isin([*half.head(0).columns, *by])
    half = half.obj.loc[:, chosen]
  if hasattr(half, "with_format"):  # A Hugging Face dataset.
    found = half.with_format("numpy")[:]
    columns = {
      column: np.asarray(found[column]) for column in half.column_names
    }
  elif hasattr(half, "to_numpy") and hasattr(half, "columns"):  # A DataFrame.
    for column, number in collections.Counter(half.columns).items():
      if number > 1:
        raise DataError(name, f"has more than one column {column!r}.")
    columns = {column: half[column].to_numpy() for column in half.columns}
  else:
    return None
  label = roles.label or next((c for c in columns if c in LABELS), None)
  others = [c for c in (label, roles.weight, roles.group, *by) if c]
  wanted = [*(roles.features or ()), *others]
  unknown = [c for c in wanted if c not in columns]
  if unknown or label is None or (rows is None and not by):
    problem = (
      f"has no column {unknown[0]!r}"
      if unknown
      else (
        "name the column to predict by label=..."
        if label is None
        else "name the column of clients by client=..."
      )
    )
    raise DataError(name, f"{problem}; it has {', '.join(map(str, columns))}.")
  for column in filter(None, (label, roles.group, *by)):
    if _has_missing(columns[column]):
      raise DataError(
        name, f"column {column!r} has missing values; leave these rows out."
      )
  if rows is None:
    try:
      values, codes = np.unique(columns[by[0]], return_inverse=True)
    except TypeError as error:
      raise DataError(
        name,
        f"column {by[0]!r} has values of several kinds; make all texts, or all "
        "numbers.",
      ) from error
    rows = _by_name(
      ((v, np.flatnonzero(codes == k)) for k, v in enumerate(values)), name
    )
  features = list(roles.features or _features(columns, others, name))
  if label in features or not features:
    problem = "names the label" if features else "are none"
    raise DataError(
      name,
      f"features {problem}; expected other columns to predict {label!r} from.",
    )
  described = getattr(getattr(half, "features", None), "get", lambda _: None)
  return _Table(
    _inputs({c: columns[c] for c in features}, name),
    columns[label],
    rows,
    getattr(described(label), "names", None),
    _weights(columns, roles.weight, rows, name),
    columns[roles.group] if roles.group else None,
  )


def _features(
  columns: Mapping[str, np.ndarray], others: Sequence[str], name: str
) -> list[str]:
  """Returns the columns without other roles, except integers named like ids."""
  ids = [
    c
    for c, values in columns.items()
    if c not in others
    and values.dtype.kind in "iu"
    and identifiers.looks_like_id(str(c))
  ]
  identifiers.notify_left_out(name, map(str, ids), "features=[...]")
  return [c for c in columns if c not in others and c not in ids]


def _weights(
  columns: Mapping[str, np.ndarray],
  column: str | None,
  rows: Mapping[str, np.ndarray],
  name: str,
) -> dict[str, float]:
  """Returns the clients' weights; empty without a column of weights."""
  if column is None:
    return {}
  source, values = f"{name}, column {column!r}", columns[column]
  if values.dtype.kind not in "iuf":
    raise DataError(source, f"holds {values.dtype}, expected numbers.")
  return client_weights.of_rows(values, rows, source)


def _inputs(columns: Mapping[str, np.ndarray], name: str) -> np.ndarray:
  """Returns numeric columns as a matrix; a single column may have tensors."""
  for column, values in columns.items():
    if values.dtype.kind not in "biuf":
      raise DataError(
        name,
        f"column {column!r} holds {values.dtype}, expected numbers. Leave it "
        "out by features=[...], convert it to numbers, or write the table to a "
        "file for the task table, which reads texts and missing values.",
      )
    example_checks.check_finite(name, f"column {column!r}", values)
  arrays = list(columns.values())
  if len(arrays) == 1:
    return arrays[0] if arrays[0].ndim > 1 else arrays[0][:, np.newaxis]
  if any(array.ndim > 1 for array in arrays):
    raise DataError(
      name,
      f"columns {', '.join(columns)} hold tensors; choose one by "
      "features=[...].",
    )
  return np.stack([array.astype(np.float32) for array in arrays], axis=1)
