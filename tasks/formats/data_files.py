"""Finds, opens and atomically writes data files; errors are `DataError`s."""

import bz2
import contextlib
import gzip
import io
import lzma
import pathlib
import re
import typing
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from tasks.data_error import DataError, reporting_unreadable
from tasks.formats import file_kinds, source_files
from tff_fair.files import atomic

PAGE = "docs/tasks.md"  # Documents the files of each task.


def require(
  data_dir: pathlib.Path | None, *, what: str, files: str
) -> pathlib.Path:
  """Returns `data_dir`; if it is None, raises a `DataError` about `files`."""
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
  """Returns the first file or folder of `names` that exists in a directory."""
  for name in names:
    if (directory / name).exists():
      return directory / name
  raise DataError(
    directory, f"has no {what}; expected {' or '.join(names)}; see {PAGE}."
  )


# Called with the number of bytes just read from a file on disk.
OnRead = Callable[[int], object]

_MOST_CHARACTERS = 300


def ignore(num_bytes: int) -> None:
  """Does nothing: for callers that show no progress."""
  del num_bytes


@contextlib.contextmanager
def open_file(
  path: pathlib.Path, on_read: OnRead = ignore
) -> Iterator[typing.IO[bytes]]:
  """Opens a file for reading; unpacks gzip, bzip2, xz and zip."""
  source_files.note(path)
  with reporting_unreadable(path):
    try:
      with path.open("rb") as file:
        unpack = _unpacker(file)
        file.seek(0)
        raw = io.BufferedReader(_ReportingFile(file, on_read))
        if unpack is None:
          yield raw
          return
        with unpack(raw, path) as content:
          yield limit_size(content, path)
    except EOFError as error:
      raise DataError(
        path,
        "is truncated: its compressed data ends too early. Copy or download it "
        "again.",
      ) from error
    except (
      *(gzip.BadGzipFile, zlib.error, lzma.LZMAError, zipfile.BadZipFile),
      NotImplementedError,  # From zipfile: an unknown compression method.
    ) as error:
      raise DataError(path, f"is damaged: {error}.") from error


def lines(
  path: pathlib.Path, on_read: OnRead = ignore
) -> Iterator[tuple[str, str]]:
  """Yields where each line is, for errors, and its text without line end."""
  with open_file(path, on_read) as file:
    for number, line in enumerate(file, 1):
      try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
      except UnicodeDecodeError as error:
        raise DataError(
          f"{path}, line {number}, byte {error.start + 1}",
          "is not UTF-8 text. Convert it, for example with iconv.",
        ) from error
      yield f"{path}, line {number}", text.rstrip("\r\n")


# A compressed file may unpack to `_MOST_BYTES` or to `_MOST_TIMES` its size,
# whichever is more. Real data unpack to 3 to 30 times their size, zeros to
# 1,000 times.
_MOST_BYTES = 1 << 30
_MOST_TIMES = 250


def limit_size(
  content: typing.IO[bytes], path: pathlib.Path
) -> io.BufferedReader:
  """Wraps unpacked `content`; reading too much of it raises a `DataError`."""
  most = max(_MOST_BYTES, _MOST_TIMES * path.stat().st_size)

  def check(num_bytes: int) -> None:
    del num_bytes
    if content.tell() > most:
      raise DataError(
        path,
        f"unpacks to more than {most:,} bytes, which is too much for a file of "
        "its size. Unpack it yourself if the file is right.",
      )

  return io.BufferedReader(_ReportingFile(content, check), 1 << 16)


def _only_member(
  raw: io.BufferedReader, path: pathlib.Path
) -> typing.IO[bytes]:
  """Opens a zip archive's only file, ignoring files that macOS adds."""
  archive = zipfile.ZipFile(raw)
  members = [
    member
    for member in archive.infolist()
    if not member.is_dir() and not member.filename.startswith("__MACOSX/")
  ]
  if len(members) != 1:
    kind = file_kinds.of_members([member.filename for member in members])
    raise DataError(path, kind.problem(path.name))
  if members[0].flag_bits & 1:
    raise zipfile.BadZipFile("it is encrypted")
  return archive.open(members[0])


_Unpacker = Callable[[io.BufferedReader, pathlib.Path], typing.IO[bytes]]
# Decompressors by a file's first bytes.
_DECOMPRESSORS: dict[re.Pattern[bytes], _Unpacker] = {
  re.compile(rb"\x1f\x8b"): lambda raw, _: typing.cast(
    "typing.IO[bytes]", gzip.GzipFile(fileobj=raw)
  ),
  re.compile(rb"BZh[1-9]1AY&SY"): lambda raw, _: bz2.BZ2File(raw),
  re.compile(rb"\xfd7zXZ\0"): lambda raw, _: lzma.LZMAFile(raw),  # noqa: SIM115
  re.compile(rb"PK(\x03\x04|\x05\x06)"): _only_member,
}
_LONGEST_MAGIC = 10


def _unpacker(file: BinaryIO) -> _Unpacker | None:
  """Returns the decompressor for a file; None if it is not compressed."""
  magic = file.read(_LONGEST_MAGIC)
  return next(
    (u for start, u in _DECOMPRESSORS.items() if start.match(magic)), None
  )


def is_compressed(path: pathlib.Path) -> bool:
  """Returns whether a file is compressed as a whole."""
  with reporting_unreadable(path), path.open("rb") as file:
    return _unpacker(file) is not None


@contextlib.contextmanager
def reporting_damage(
  place: object, problem: str = "is damaged"
) -> Iterator[None]:
  """Turns an error in the block into a `DataError` about `place`.

  Parsers of damaged bytes raise errors of many kinds, so put only the parser's
  call into the block. A `DataError`, and an `OSError` of the operating system,
  is raised unchanged.
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
  """Returns the type and the message of an error in one line."""
  text = " ".join(f"{type(error).__name__}: {error}".split())
  return text[:_MOST_CHARACTERS].rstrip(".: ")


class _ReportingFile(io.RawIOBase):
  """A file that reports the number of bytes of each read."""

  def __init__(self, file: typing.IO[bytes], on_read: OnRead) -> None:
    self._file = file
    self._on_read = on_read

  def readable(self) -> bool:
    return True

  def seekable(self) -> bool:
    return self._file.seekable()  # zipfile seeks to the list of members.

  def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
    return self._file.seek(offset, whence)

  def tell(self) -> int:
    return self._file.tell()

  def readinto(self, buffer: typing.Any) -> int:
    found = self._file.read(len(buffer))
    buffer[: len(found)] = found
    self._on_read(len(found))
    return len(found)


@contextlib.contextmanager
def replacement(
  path: pathlib.Path, *, overwrite: bool = False
) -> Iterator[pathlib.Path]:
  """Does the same as `atomic.replacement`, but raises `DataError`s."""
  with (
    _as_data_error(path),
    atomic.replacement(path, overwrite=overwrite) as staged,
  ):
    yield staged


def check_free(path: pathlib.Path, *, overwrite: bool) -> None:
  """Does the same as `atomic.check_free`, but raises a `DataError`."""
  with _as_data_error(path):
    atomic.check_free(path, overwrite=overwrite)


@contextlib.contextmanager
def _as_data_error(path: pathlib.Path) -> Iterator[None]:
  """Turns an `OSError` of `atomic` in the block into a `DataError`."""
  try:
    yield
  except OSError as error:
    raise DataError(path, str(error).removeprefix(f"{path}: ")) from error
