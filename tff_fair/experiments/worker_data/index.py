"""The index of a folder of worker data: all that the program reads of it.

    index.json      what the data are, and of each file its place and checksum
    clients.npz     names, numbers of examples, and variances of labels
    train_x.bin     x of all clients, row after row; so train_y, test_x, test_y

The version of the data is the SHA-256 of index.json. Each array's file ends
with it, after its rows: a worker reads these 64 bytes to find whether it has
the whole file and the same version. The checksums in the index are those of the
rows, and of clients.npz, as they were written.
"""

import dataclasses
import functools
import hashlib
import json
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import tasks
from tasks.formats import client_names, files, npz, parsing
from tff_fair.declared import FieldError
from tff_fair.experiments import spec_text
from tff_fair.experiments.spec import RunSpec

INDEX, CLIENTS = "index.json", "clients.npz"
FORMAT = "tff_fair worker data, 1"
SPLITS = ("train", "test")
ARRAYS = ("x", "y")
# Hexadecimal digits at the end of each array's file.
VERSION_BYTES = 64

IS_MISSING = "is missing"
IS_SHORTER = "is shorter than the index says, or cannot be read"
IS_NO_FILE = "is no file"  # Reading a pipe or a device may never end.
IS_ANOTHER = "is of another version"
IS_NOT_READ = "cannot be read in time, as a pipe, or a disk that is gone"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArrayFile:
  """A file of the rows of all clients.

  Attributes:
    name: Its name in the folder.
    dtype: The type of its numbers, as NumPy writes it.
    shape: The shape of a row.
    num_bytes: The size of all rows; the version follows them.
    sha256: Of the rows.
  """

  name: str
  dtype: str
  shape: Sequence[int]
  num_bytes: int
  sha256: str


class Client(NamedTuple):
  """Where a client's rows are in each file of a half.

  Attributes:
    first_row: The first one.
    num_rows: Their number.
  """

  first_row: int
  num_rows: int


class WorkerData:
  """A folder that each worker has, as its index tells."""

  def __init__(self, folder: str | os.PathLike[str]) -> None:
    """Reads the index.

    Args:
      folder: The folder. Workers look for it by the same path.

    Raises:
      FieldError: If there is no index, or it is damaged or of another version.
    """
    path = os.path.abspath(os.path.expanduser(folder))
    self.folder = pathlib.Path(path)
    content = self._read(INDEX)
    try:
      self.index: Mapping[str, Any] = parsing.parse_json(content)
    except parsing.ParseError as error:
      raise self.error(
        f"{INDEX} is damaged: {error}; write the folder again."
      ) from error
    found = self.index.get("format") if isinstance(self.index, dict) else None
    if found != FORMAT:
      raise self.error(
        f"{INDEX} is not of this version (expected {FORMAT!r}, found "
        f"{found!r}); write the folder again."
      )
    self.version = hashlib.sha256(content).hexdigest()
    self._check_files_here()

  def error(self, problem: str) -> FieldError:
    """Returns the error of a problem with this folder."""
    return error(self.folder, problem)

  def files(self, split: str) -> list[ArrayFile]:
    """Returns the files of a half, x first."""
    return [ArrayFile(**file) for file in self.index["files"][split]]

  def path(self, file: ArrayFile) -> str:
    """Returns where workers find a file."""
    return str(self.folder / file.name)

  def client(self, split: str, client_id: int) -> Client:
    """Returns where a client's rows are."""
    stop = int(self._ends[split][client_id])
    num_rows = int(self.clients[split][client_id])
    return Client(stop - num_rows, num_rows)

  def owner(self, split: str, row: int) -> tuple[int, int]:
    """Returns whose row it is: the client's id, and its number of the row."""
    ends = self._ends[split]
    client_id = int(np.searchsorted(ends, row, side="right"))
    return client_id, row - self.client(split, client_id).first_row

  def label_variance(self, split: str, client_id: int) -> float:
    """Returns `scoring.variance` of a client's labels, if they are numbers."""
    return float(self.clients[f"{split}_label_variance"][client_id])

  @functools.cached_property
  def clients(self) -> Mapping[str, np.ndarray]:
    """What is known of each client, by name.

    Raises:
      FieldError: If the file is missing or damaged.
    """
    found = hashlib.sha256(self._read(CLIENTS)).hexdigest()
    if found != self.index["clients"]:
      raise self.error(f"{CLIENTS} is damaged; copy or write it again.")
    try:
      return npz.read(
        self.folder / CLIENTS,
        ["names", "name_ends", *SPLITS],
        what="list of clients",
        optional=[
          "client_weights",
          *(f"{split}_label_variance" for split in SPLITS),
        ],
      )
    except tasks.DataError as error:
      raise self.error(str(error)) from error

  @functools.cached_property
  def _ends(self) -> Mapping[str, np.ndarray]:
    return {split: np.cumsum(self.clients[split]) for split in SPLITS}

  def _read(self, name: str) -> bytes:
    path = self.folder / name
    try:
      if kind := files.special_kind(path):
        raise self.error(f"{name} is a {kind}, no file.")
      return path.read_bytes()
    except OSError as error:
      raise self.error(
        f"{name} cannot be read there: {error.strerror}; prepare_data "
        "--for_workers writes such a folder."
      ) from error

  def _check_files_here(self) -> None:
    """Checks that files of rows that lie beside the index have its version.

    So the run finds a damaged index before it reads more of it. A host that
    computes nothing needs no such files.
    """
    for path in self.folder.glob("*.bin"):
      if not path.is_file():
        continue
      try:
        rows = max(0, path.stat().st_size - VERSION_BYTES)
        found = _after_rows(path, rows)
      except OSError as error:
        raise self.error(
          f"{path.name} cannot be read there: {error.strerror}."
        ) from error
      if found != self.version:
        raise self.error(
          f"{path.name} is cut off, or of another version than {INDEX}; copy "
          "the folder again, as a whole."
        )

  @property
  def client_names(self) -> client_names.ClientNames:
    """The names of the clients, by id."""
    return client_names.ClientNames.of_text(
      self.clients["names"].tobytes(), self.clients["name_ends"]
    )


def error(folder: pathlib.Path, problem: str) -> FieldError:
  """Returns the error of a problem with a folder."""
  return FieldError("worker_data", problem, value=str(folder))


def described(spec: RunSpec) -> dict[str, object]:
  """Returns what decides the data of a run's task, by flat names."""
  settings = spec.effective()
  return {
    "task": tasks.short_name(spec.task),
    "seed": spec.seeds.data,
    "own_files": tasks.file_digest(spec.task),
    **{
      name: value
      for name, value in settings.items()
      if name.startswith(spec_text.TASK_OPTION)
    },
  }


def check_described(data: WorkerData, spec: RunSpec) -> None:
  """Checks that a folder is of a run's task, with its options and data seed.

  Raises:
    FieldError: If it is of another one; names the first difference.
  """
  wanted = json.loads(json.dumps(described(spec)))
  found = data.index["made_of"]
  for name in {**wanted, **found}:
    if wanted.get(name) != found.get(name):
      raise data.error(
        f"is of another task: {name} is {found.get(name)!r} there, "
        f"{wanted.get(name)!r} in the run; write the folder for this run."
      )


# What a host that has the files finds in them. Dask's workers call these, too.


def problem_here(files: Sequence[tuple[str, int]], version: str) -> str | None:
  """Returns the first problem of files at this host; `None` if it has all.

  Args:
    files: The path of each file, and the bytes of its rows.
    version: The version at the end of each.
  """
  for path, num_bytes in files:
    if not os.path.exists(path):
      return f"{path} {IS_MISSING}"
    if not os.path.isfile(path):
      return f"{path} {IS_NO_FILE}"
    try:
      found = _after_rows(path, num_bytes)
    except OSError:
      return f"{path} {IS_SHORTER}"
    if found != version:
      is_cut = len(found) < len(version)
      return f"{path} {IS_SHORTER if is_cut else IS_ANOTHER}"
  return None


def _after_rows(path: str | os.PathLike[str], num_bytes: int) -> str:
  """Returns what a file holds after its rows: its version, if it is whole."""
  with open(path, "rb") as file:
    file.seek(num_bytes)
    # Where the version ends, the file does.
    return file.read(VERSION_BYTES + 1).decode("ascii", "replace")


def no_class_here(
  path: str, num_bytes: int, dtype: str, num_classes: int
) -> tuple[int, int] | None:
  """Returns the first label that is no class: its place and its value.

  Args:
    path: The file.
    num_bytes: The bytes of its rows.
    dtype: The type of the labels, integers.
    num_classes: The classes are the numbers below.
  """
  number = num_bytes // np.dtype(dtype).itemsize
  labels = np.memmap(path, dtype, "r", shape=(number,))
  wrong = np.flatnonzero((labels < 0) | (labels >= num_classes))[:1]
  return (int(wrong[0]), int(labels[wrong[0]])) if wrong.size else None
