"""A user's own table: each row is an example, one column is the client.

The table is a Parquet file, a CSV file, compressed or not, or a folder of such
files. `tasks.tabular.features` describes how columns become x. The label
becomes a class, or a number that is standardized to mean 0 and standard
deviation 1 over the training rows.
"""

import dataclasses
import functools
import pathlib
import typing
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from tasks import data_error, task
from tasks.data_error import DataError
from tasks.tabular import (
  columns,
  features,
  identifiers,
  labels,
  population,
  reading,
  row_task,
  table_file,
  table_folder,
  text_columns,
)
from tff_fair import declared

if typing.TYPE_CHECKING:
  import tensorflow as tf


_ROLES = ("client", "label", "split", "split_by", "client_weight", "group")
_LISTS = ("features", "ignore", "keep", "categories", "units")
_A_COLUMN: declared.Bounds = {
  "expects": "the name of a column",
  "is_valid": bool,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options(table_file.Format, row_task.RowOptions):
  """Options of the task `table`."""

  file: str = declared.value(
    "",
    "The file: Parquet, or CSV, which may be compressed (gz, bz2, xz, zip); or "
    "a folder of such files, or a pattern such as sites/*.csv. A relative path "
    "begins in data_dir if that is given, otherwise in the working directory.",
  )
  client: str = declared.value(
    "client",
    "The column with the client of each row, such as a hospital, device or "
    "branch. In a folder it may be a partition column, as in "
    "hospital=north/a.parquet; if no file has it, each file is a client, with "
    "the file's name.",
    **_A_COLUMN,
  )
  label: str = declared.value("label", "The column to predict.", **_A_COLUMN)
  features: declared.Names | None = declared.value(
    None,
    "The columns to predict from; none means all others. Put a name with a "
    "comma in quotation marks.",
  )
  ignore: declared.Names | None = declared.value(
    None, "Columns that are not features."
  )
  keep: declared.Names | None = declared.value(
    None,
    "Columns to predict from although their names or numbers look like ids or "
    "row numbers. With features none, the task leaves other such columns out, "
    "with a notice.",
  )
  kind: labels.LabelKind = declared.value(
    "auto",
    'What labels are: "classes" or a "number". With "auto", texts, and whole '
    "numbers with at most 20 different values, are classes.",
  )
  split: str | None = declared.value(
    None,
    'The column that holds "train" or "test"; none means that a random share '
    "of each client's rows is used for testing.",
    **_A_COLUMN,
  )
  split_by: str | None = declared.value(
    None,
    "With split none: the column that shows which rows belong together, such "
    "as those of one person: all of them are used for training, or all for "
    "testing. It is not a feature.",
    **_A_COLUMN,
  )
  drop_unlabelled: bool = declared.value(
    False,
    "Whether to leave out rows with an empty label, with a notice; otherwise "
    "such rows are an error.",
  )
  client_weight: str | None = declared.value(
    None,
    "The column with the weight of the client, for runs with "
    "client_weighting=column: a number above 0, the same in all rows of a "
    "client. None means that the table has no weights.",
    **_A_COLUMN,
  )
  group: str | None = declared.value(
    None,
    "The column with the group of people that a row belongs to, such as sex: "
    "the run then reports how differently the model treats the groups. Its "
    "values are texts. It is a feature, too, unless `ignore` names it.",
    **_A_COLUMN,
  )
  categories: declared.Names | None = declared.value(
    None,
    "Columns of codes: their numbers are categories, as texts are, not "
    "amounts.",
  )
  units: declared.Names | None = declared.value(
    None,
    'Columns of numbers with a unit or a percent sign, such as "5 mg/l". The '
    "unit is removed.",
  )

  def __post_init__(self) -> None:
    super().__post_init__()
    for name, *others in (
      ("label", "client"),
      ("split", "client", "label"),
      ("split_by", "client", "label"),
      ("client_weight", "client", "label", "split"),
      ("group", "label", "split"),
    ):
      column = getattr(self, name)
      self.require(
        name,
        column is None or column not in [getattr(self, k) for k in others],
        f"another column than {' and '.join(others)}",
      )
    self.require(
      "split_by",
      self.split_by is None or self.split is None,
      "none if split is given",
    )
    taken = {self.client, self.label, self.split, *(self.ignore or ())}
    self.require(
      "features",
      taken.isdisjoint(self.features or ()),
      "other columns than client, label, split and ignored ones",
    )


@data_error.reporting_file_option()
def load(
  config: Options, *, data_dir: pathlib.Path | None, seed: int, model_seed: int
) -> task.Task:
  """Builds the task; x is float32[n, width], y is int32[n] or float32[n]."""
  table = _open_table(config, data_dir)
  names = _feature_names(config, table)
  found = _columns(config, table, names)
  names = _without_ids(config, table, names, found)
  rows: table_folder.Table | reading.SelectedRows = table
  if config.drop_unlabelled:
    rows, found = reading.keep_labelled_rows(table, found, config.label)
  clients, of_label = _clients_and_labels(config, rows, found, seed)
  inputs = {name: found[name] for name in names}
  fitted = features.fit(inputs, clients.train)
  encoder = features.Encoder(inputs, fitted)
  num_numbers = sum(isinstance(c, columns.Numbers) for c in inputs.values())
  return row_task.build_task(
    "table",
    f"{table.path.name}, {num_numbers:,} columns of numbers and "
    f"{len(inputs) - num_numbers:,} of texts, {encoder.width:,} features",
    config,
    clients,
    of_label,
    encoder,
    [encoder.width],
    seed=model_seed,
    preprocessing=_Preprocessing(fitted, of_label),
    load_raw=functools.partial(features.raw_values, inputs),
    weights=_client_weights(config, table, found),
    groups=_groups(config, table, found),
  )


def _open_table(
  config: Options, data_dir: pathlib.Path | None
) -> table_folder.Table:
  path = reading.locate(config.file, data_dir, several=True)
  open_file = functools.partial(reading.open_table, written=config)
  files = table_folder.find_files(path)
  if files is None:
    return open_file(path)
  return table_folder.FolderTable(path, files, config.client, open_file)


def _columns(
  config: Options, table: table_folder.Table, names: list[str]
) -> dict[str, columns.Column]:
  """Reads the feature columns `names`, and the columns with other roles."""
  roles = [name for role in _ROLES if (name := getattr(config, role))]
  units = config.units or ()
  as_texts = {config.client, *(config.categories or ()), *units}
  as_texts |= {*filter(None, (config.split, config.split_by, config.group))}
  # Without duplicates: the column of client weights may be a feature, too.
  wanted = list(dict.fromkeys([*roles, *names]))
  measured = [
    name
    for name in wanted
    if name not in as_texts
    and not _is_named_as_id(config, name)
    and not (name == config.label and config.kind == "classes")
  ]
  found = reading.read(
    table,
    wanted,
    texts=as_texts,
    # The group is left out, because `row_task` limits the number of groups.
    categories=[
      n
      for n in names
      if n not in units and n != config.group and not _is_named_as_id(config, n)
    ],
    exact={config.label},
    complete=[
      name
      for name in roles
      if not (config.drop_unlabelled and name == config.label)
    ],
    remedies={config.label: ", or leave them out by drop_unlabelled=true"},
    measured=measured,
    units=[name for name in units if name in wanted],
  )
  reading.notify_unusual_cells(table, found, measured=measured)
  for role in dict.fromkeys(roles):
    if role != config.split_by:
      reading.notify_similar_texts(table, role, found[role])
  return found


def _clients_and_labels(
  config: Options,
  table: table_folder.Table | reading.SelectedRows,
  found: dict[str, columns.Column],
  seed: int,
) -> tuple[population.Population, labels.Labels]:
  """Assigns rows to clients, and derives labels from the training rows."""
  label, source = found[config.label], f"{table.path}, column {config.label!r}"
  classes = labels.classes_of(label, config.kind, source=source)
  clients = _clients(config, table, found, classes, seed)
  if classes is not None:
    return clients, labels.number_classes(
      classes, clients, source=source, place=table.place
    )
  assert isinstance(label, columns.Numbers)
  return clients, labels.standardize(label.values, clients.train, source=source)


def _feature_names(config: Options, table: table_folder.Table) -> list[str]:
  given: dict[str, Sequence[str]] = {
    role: [name] for role in _ROLES if (name := getattr(config, role))
  }
  given |= {option: getattr(config, option) or () for option in _LISTS}
  given["missing"] = config.columns_with_missing()
  reading.check_names(table, given)
  if config.features:
    # Without duplicates, in the given order.
    return list(dict.fromkeys(given["features"]))
  # All columns without a role are features, and so is the group.
  roles = {*_ROLES, "ignore"} - {"group"}
  others = {name for role in roles for name in given.get(role, ())}
  # Leaves out a column without a name, which has pandas' row numbers.
  left = [name for name in table.names if name and name not in others]
  if not left:
    raise DataError(
      table.path, f"there is no column left to predict {config.label!r} from."
    )
  return left


def _may_be_id(config: Options, name: str) -> bool:
  """Returns whether the task may leave out a column as ids or row numbers."""
  if config.features or name == config.group:
    return False
  lists = (config.keep, config.categories, config.units)
  return not any(name in (names or ()) for names in lists)


def _is_named_as_id(config: Options, name: str) -> bool:
  return _may_be_id(config, name) and identifiers.looks_like_id(name)


def _without_ids(
  config: Options,
  table: table_folder.Table,
  names: list[str],
  found: Mapping[str, columns.Column],
) -> list[str]:
  """Drops ids and row numbers from the features, and notifies the user."""

  def is_id(name: str) -> bool:
    column, is_named = found[name], _is_named_as_id(config, name)
    if isinstance(column, columns.Numbers):
      return _may_be_id(config, name) and (
        is_named or column.may_be_row_numbers
      )
    num_texts = int((column.codes >= 0).sum())
    return (
      is_named and text_columns.refusal(column.values, num_texts) is not None
    )

  ids = [name for name in names if is_id(name)]
  left = [name for name in names if name not in ids]
  if not left:
    raise DataError(
      table.path,
      f"the only columns left to predict {config.label!r} from look like ids "
      f"or row numbers: {', '.join(map(repr, ids))}. Name those that are "
      "something else in keep=...",
    )
  identifiers.notify_left_out(table.path, ids, "keep={}")
  return left


def _texts(
  found: Mapping[str, columns.Column], name: str
) -> tuple[np.ndarray, tuple[str, ...]]:
  column = found[name]
  assert isinstance(column, columns.Texts)  # It was read as texts.
  return column.codes, column.values


def _clients(
  config: Options,
  table: table_folder.Table | reading.SelectedRows,
  found: dict[str, columns.Column],
  classes: labels.Classes | None,
  seed: int,
) -> population.Population:
  codes, names = _texts(found, config.client)
  return row_task.divide(
    config,
    codes,
    names,
    _texts(found, config.split) if config.split else None,
    classes.codes if classes else None,
    seed=seed,
    source=f"{table.path}, column {config.client!r}",
    source_of_split=lambda row: (
      f"{table.path}, column {config.split!r}, {table.place(row)}"
    ),
    blocks=_texts(found, config.split_by)[0] if config.split_by else None,
  )


def _client_weights(
  config: Options,
  table: table_folder.Table,
  found: dict[str, columns.Column],
) -> tuple[np.ndarray, str] | None:
  if config.client_weight is None:
    return None
  source = f"{table.path}, column {config.client_weight!r}"
  column = found[config.client_weight]
  if not isinstance(column, columns.Numbers):
    raise DataError(
      f"{source} (client_weight)",
      f"has texts, such as {column.values[0]!r}; expected a number above 0 for "
      "each client.",
    )
  return column.values, source


def _groups(
  config: Options,
  table: table_folder.Table,
  found: dict[str, columns.Column],
) -> row_task.Groups | None:
  if config.group is None:
    return None
  source = f"{table.path}, column {config.group!r}"
  return row_task.Groups(*_texts(found, config.group), source)


class _Preprocessing:
  """Encodes columns with Keras layers and statistics of the training rows."""

  columns: Mapping[str, Literal["number", "text"]]
  typical: Mapping[str, float | str]

  def __init__(
    self, found: Sequence[features.Feature], of_label: labels.Labels
  ) -> None:
    self.features = found
    self.labels = of_label
    self.columns = {
      feature.name: "number"
      if isinstance(feature, features.NumberFeature)
      else "text"
      for feature in found
    }
    self.typical = {feature.name: _typical(feature) for feature in found}

  def wrap(self, model: "tf.keras.Model") -> "tf.keras.Model":
    """Returns a model that maps columns by name to probabilities or numbers."""
    from tasks.tabular import layers  # noqa: PLC0415

    inputs = layers.inputs(self.columns, taken=[model.name])
    outputs = model(layers.encode(inputs, self.features))
    return layers.model(inputs, layers.in_label_units(outputs, self.labels))

  def encoder(self) -> "tf.keras.Model":
    """Returns a Keras model of only the preprocessing, from raw values to x."""
    from tasks.tabular import layers  # noqa: PLC0415

    inputs = layers.inputs(self.columns)
    return layers.model(inputs, layers.encode(inputs, self.features))


def _typical(feature: features.Feature) -> float | str:
  if isinstance(feature, features.NumberFeature):
    return float(f"{feature.shift:.3g}")
  return next((value for value in feature.values if value), "")
