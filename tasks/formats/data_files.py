"""Data files: found, opened, and written whole; a fault is a `DataError`."""

import contextlib
import gzip
import io
import pathlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from tasks.data_error import DataError
from tasks.formats import files

PAGE = "docs/tasks.md"  # Which files each task reads.


def require(
  data_dir: pathlib.Path | None, *, what: str, files: str
) -> pathlib.Path:
  """Returns the directory that the user named.

  Args:
    data_dir: The directory, if there is one.
    what: Name of the data, for the error message.
    files: The files that it consists of, for the same.

  Raises:
    DataError: If no directory was named.
  """
  if data_dir is None:
    raise DataError(
      "data_dir",
      f"is not given; name the directory that has {what} ({files}); see "
      f"{PAGE}.",
    )
  return data_dir


def first_existing(
  directory: pathlib.Path, names: Sequence[str], *, what: str
) -> pathlib.Path:
  """Returns the first file or folder that is there.

  Args:
    directory: Where to look.
    names: Names it may have.
    what: Name of the data, for the error message.

  Raises:
    DataError: If there is none.
  """
  for name in names:
    if (directory / name).exists():
      return directory / name
  raise DataError(
    directory, f"has no {what}; expected {' or '.join(names)}; see {PAGE}."
  )


# Told how many bytes of a file, as it lies on the disk, were read just now.
OnRead = Callable[[int], object]

_MOST_CHARACTERS = 300
_GZIP_MAGIC = b"\x1f\x8b"


def ignore(num_bytes: int) -> None:
  """Does nothing: for callers that show no progress."""
  del num_bytes


@contextlib.contextmanager
def opened(path: pathlib.Path, on_read: OnRead = ignore) -> Iterator[BinaryIO]:
  """Opens a file for reading; its content tells whether it is compressed.

  Args:
    path: The file.
    on_read: Told how much was read.

  Yields:
    The uncompressed content.

  Raises:
    DataError: If the file cannot be read, or its compressed data is truncated
      or damaged, at any place within the context.
  """
  try:
    with path.open("rb") as file:
      is_compressed = file.read(len(_GZIP_MAGIC)) == _GZIP_MAGIC
      file.seek(0)
      raw = io.BufferedReader(_Watched(file, on_read))
      if not is_compressed:
        yield raw
        return
      with gzip.GzipFile(fileobj=raw) as content:
        yield content  # type: ignore[misc]  # A BinaryIO in all but name.
  except EOFError as error:
    raise DataError(
      path,
      "is truncated: its gzip data ends too early. Copy or download it again.",
    ) from error
  except (gzip.BadGzipFile, zlib.error) as error:
    raise DataError(path, f"is damaged: {error}.") from error
  except OSError as error:
    raise DataError(
      path, f"cannot be read: {error.strerror or error}."
    ) from error


@contextlib.contextmanager
def damage_named(place: object, problem: str = "is damaged") -> Iterator[None]:
  """Makes whatever a parser raises a `DataError`.

  Damaged bytes lead parsers (NumPy's, zipfile, tarfile, lzma, pickle, SQLite)
  anywhere: to errors of their own, to KeyError and IndexError, to a
  RecursionError or a MemoryError. So nothing but the call of a parser belongs
  into this context.

  Args:
    place: The file, or the file and the place in it.
    problem: What to say before the parser's own words.

  Raises:
    DataError: In place of every error but those of the system, which may be of
      another file.
  """
  try:
    yield
  except DataError:
    raise
  except Exception as error:
    if isinstance(error, OSError) and error.errno is not None:
      raise
    raise DataError(place, f"{problem}: {reason(error)}.") from error


def reason(error: Exception) -> str:
  """Returns what an error says, in a line."""
  text = " ".join(f"{type(error).__name__}: {error}".split())
  return text[:_MOST_CHARACTERS].rstrip(".: ")


class _Watched(io.RawIOBase):
  """A file that reports each read."""

  def __init__(self, file: BinaryIO, on_read: OnRead) -> None:
    self._file = file
    self._on_read = on_read

  def readable(self) -> bool:
    return True

  def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
    num_bytes = self._file.readinto(buffer)  # type: ignore[attr-defined]
    self._on_read(num_bytes)
    return num_bytes


@contextlib.contextmanager
def replacement(
  path: pathlib.Path, *, overwrite: bool = False
) -> Iterator[pathlib.Path]:
  """Yields a place to write a file to, as `files.replacement`.

  Args:
    path: The place that the file shall have.
    overwrite: Whether the file may replace another.

  Raises:
    DataError: If there is a file already, or it cannot be written.
  """
  with _named(path), files.replacement(path, overwrite=overwrite) as staged:
    yield staged


def check_free(path: pathlib.Path, *, overwrite: bool) -> None:
  """Checks that a file may be written, as `files.check_free`.

  Raises:
    DataError: If there is one already, and `overwrite` is false.
  """
  with _named(path):
    files.check_free(path, overwrite=overwrite)


@contextlib.contextmanager
def _named(path: pathlib.Path) -> Iterator[None]:
  """Makes an error of `files` a `DataError`."""
  try:
    yield
  except OSError as error:
    raise DataError(path, str(error).removeprefix(f"{path}: ")) from error
