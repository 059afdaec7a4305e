"""A user's own arrays: an npz file with x, y and client.

x has any shape with the examples on its first axis. y has for each example a
class (integers, truth values, strings, or floats with few different whole
numbers), a number, or t numbers (shape [n, t]). client is each example's
client: numbers or strings. Three further arrays are optional: split is "train"
or "test"; client_weight is the client's weight in a run with
client_weighting=column, the same in all of a client's examples; group is the
group of people that an example belongs to, such as a sex: the run then shows
how differently the model treats groups. All arrays except x may also have the
shape [n, 1]. The task does not scale x or y: standardize them first.
"""

import dataclasses
import pathlib
from collections.abc import Mapping

import numpy as np

from tasks import data_error, task
from tasks.data_error import DataError
from tasks.formats import example_checks, npz
from tasks.tabular import columns, labels, reading, row_task
from tff_fair import declared

_NEEDED = ("x", "y", "client")
_OPTIONAL = ("split", "client_weight", "group")
_TABLES = (".csv", ".tsv", ".txt", ".parquet")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(row_task.RowOptions):
  """Options of the task `arrays`."""

  file: str = declared.value(
    "",
    "The npz file with the arrays x, y and client, and optionally split. A "
    "relative path begins in data_dir if that is given, otherwise in the "
    "working directory.",
  )
  kind: labels.LabelKind = declared.value(
    "auto",
    'What y holds: "classes" or a "number". With "auto", texts, integers, and '
    "whole floats with at most 20 different values are classes; several floats "
    "for an example are numbers.",
  )


@data_error.reporting_file_option()
def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; y is int32[n] (classes), or float32[n] or [n, t]."""
  path = reading.locate(config.file, data_dir)
  if path.suffix.lower() in _TABLES:
    raise DataError(
      path,
      "is a table, which the task table reads; expected an npz file with x, "
      "y and client.",
    )
  arrays = npz.read(path, _NEEDED, optional=_OPTIONAL, what="file of examples")
  # All arrays except x may have the shape [n, 1].
  arrays = {
    name: array[:, 0] if name != "x" and array.shape[1:] == (1,) else array
    for name, array in arrays.items()
  }
  _check(path, arrays, config.kind)
  names, client = _as_texts(path, "client", arrays["client"])
  y = arrays["y"]
  classes = _classes(path, y, config.kind) if y.ndim == 1 else None
  split_column = None
  if "split" in arrays:
    words, split = _as_texts(path, "split", arrays["split"])
    split_column = split, words
  clients = row_task.divide(
    config,
    client,
    names,
    split_column,
    classes.codes if classes else None,
    seed=seed,
    source=f"{path}, client",
    source_of_split=lambda row: f"{path}, split of {example_checks.place(row)}",
  )
  x = arrays["x"]
  # Unlike the task `table`, this task does not standardize numeric labels.
  of_label = (
    labels.Labels(y=y.astype(np.float32))
    if classes is None
    else labels.number_classes(
      classes, clients, source=f"{path}, y", place=example_checks.place
    )
  )
  groups: row_task.Groups | None = None
  if "group" in arrays:
    people, codes = _as_texts(path, "group", arrays["group"])
    groups = row_task.Groups(codes, people, f"{path}, group")
  return row_task.build_task(
    "arrays",
    f"{path.name}, x {'x'.join(map(str, x.shape[1:])) or 'a number'}",
    config,
    clients,
    of_label,
    lambda rows: x[rows].astype(np.float32),
    x.shape[1:],
    seed=model_seed,
    weights=_weights(path, arrays),
    groups=groups,
  )


def _weights(
  path: pathlib.Path, arrays: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, str] | None:
  """Returns each example's client weight, and the source for error messages.

  Returns None if the file has no weights.
  """
  weight = arrays.get("client_weight")
  if weight is None:
    return None
  if weight.dtype.kind not in "iuf":
    raise DataError(
      path, f"client_weight must be numbers, found {weight.dtype}."
    )
  return weight, f"{path}, client_weight"


def _check(
  path: pathlib.Path, arrays: Mapping[str, np.ndarray], kind: labels.LabelKind
) -> None:
  x = arrays["x"]
  if x.ndim == 0 or len(x) == 0:
    raise DataError(path, "x has no examples.")
  if x.dtype.kind not in "biuf":
    raise DataError(path, f"x must be numbers, found {x.dtype}.")
  for name, array in arrays.items():
    if len(np.atleast_1d(array)) != len(x):
      raise DataError(
        path,
        f"{name} has {len(np.atleast_1d(array)):,} examples, x has {len(x):,}.",
      )
    if 0 in array.shape:
      raise DataError(
        path, f"{name} has no values: its shape is {list(array.shape)}."
      )
    if name == "y" and array.ndim == 2 and array.dtype.kind in "biuf":
      if kind == "classes" or (array.dtype.kind != "f" and kind != "number"):
        raise DataError(
          path,
          f"y has {array.shape[1]} {array.dtype} for each example; to predict "
          "these numbers, give kind=number; if they are classes in one-hot "
          "form, save y.argmax(axis=1).",
        )
    elif name != "x" and array.ndim != 1:
      raise DataError(
        path, f"{name} must have one axis, found shape {list(array.shape)}."
      )
    example_checks.check_finite(path, name, array)


def _as_texts(
  path: pathlib.Path, name: str, array: np.ndarray
) -> tuple[list[str], np.ndarray]:
  """Returns distinct values as strings, and each example's index into them."""
  if array.dtype.kind not in "biufUS":
    raise DataError(
      path, f"{name} must be numbers or texts, found {array.dtype}."
    )
  values, codes = np.unique(array, return_inverse=True)
  return [example_checks.as_text(value) for value in values.tolist()], codes


def _classes(
  path: pathlib.Path, y: np.ndarray, kind: labels.LabelKind
) -> labels.Classes | None:
  """Returns y's classes; None if y holds numbers to predict."""
  column: columns.Column
  if y.dtype.kind == "f" or (kind == "number" and y.dtype.kind in "iu"):
    column = columns.Numbers(y.astype(np.float64))
  else:
    names, codes = _as_texts(path, "y", y)
    column = columns.Texts(codes, tuple(names))
  return labels.classes_of(column, kind, source=f"{path}, y")
