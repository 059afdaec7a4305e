"""Downloads files over HTTP, and TFF's data sets into the folders TFF reads.

An interrupted HTTP download leaves NAME.part, and the file's version according
to the server in NAME.part.version. The download resumes only if the server
still has that version (RFC 9110, sections 13.1.5 and 14).
"""

import contextlib
import hashlib
import http.client
import lzma
import os
import pathlib
import re
import shutil
import tarfile
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import IO, NamedTuple

from tasks.data_error import DataError
from tasks.formats import data_files, sqlite_file
from tff_fair.files import atomic

# Called with the number of bytes received so far, and the total if known.
OnProgress = Callable[[int, int | None], object]

# A download fails after this many seconds without data.
STALL_TIMEOUT = 30.0
_CHUNK_BYTES = 1 << 16


def from_url(
  url: str,
  path: pathlib.Path,
  *,
  sha256: str | None = None,
  on_progress: OnProgress = lambda *_: None,
) -> None:
  """Downloads a file, checks it by `sha256`, and moves it to `path`."""
  data_files.check_free(path, overwrite=False)
  part = path.with_name(f"{path.name}.part")
  version = path.with_name(f"{path.name}.part.version")
  try:
    with atomic.new_folder(path.parent):
      try:
        _fetch_part(url, part, version, on_progress)
      except (OSError, ValueError, http.client.HTTPException) as error:
        reason = f"{type(error).__name__}: {getattr(error, 'reason', error)}"
        raise DataError(
          path,
          f"{url} could not be downloaded ({' '.join(reason.split())}). The "
          "part that has arrived is kept: repeat the command to resume.",
        ) from error
      try:
        check_sha256(part, sha256)
      except DataError:
        part.unlink()
        version.unlink(missing_ok=True)
        raise
      data_files.check_free(path, overwrite=False)
      part.replace(path)
      version.unlink(missing_ok=True)
  except OSError as error:
    raise DataError(
      path, f"cannot be written: {error.strerror or error}."
    ) from error


def check_sha256(path: pathlib.Path, sha256: str | None) -> None:
  """Checks a file's SHA-256 checksum; does nothing if `sha256` is None."""
  if sha256 is None:
    return
  with path.open("rb") as file:
    found = hashlib.file_digest(file, "sha256").hexdigest()
  if found != sha256.lower():
    raise DataError(
      path,
      f"has the SHA-256 checksum {found}, expected {sha256.lower()}: it is "
      "damaged, or another file. Download it again.",
    )


def _fetch_part(
  url: str, part: pathlib.Path, version: pathlib.Path, on_progress: OnProgress
) -> None:
  start = part.stat().st_size if part.exists() and version.exists() else 0
  request = urllib.request.Request(url)
  if start:
    request.add_header("Range", f"bytes={start}-")
    request.add_header("If-Range", version.read_text())
  try:
    response = urllib.request.urlopen(request, timeout=STALL_TIMEOUT)
  except urllib.error.HTTPError as error:
    if error.code != 416 or not start:
      raise
    # The server has no more bytes: the part is complete, or of another version.
    error.close()
    if error.headers.get("Content-Range") == f"bytes */{start}":
      on_progress(start, start)
      return
    part.unlink()
    _fetch_part(url, part, version, on_progress)
    return
  with response:
    if response.status != 206:
      start = 0
    elif _range_start(response) != start:
      raise http.client.HTTPException(
        f"the server sent {response.headers.get('Content-Range')} instead of "
        f"the bytes from {start} on"
      )
    version.unlink(missing_ok=True)
    _receive(response, part, version, start, on_progress)


def _receive(
  response: http.client.HTTPResponse,
  part: pathlib.Path,
  version: pathlib.Path,
  start: int,
  on_progress: OnProgress,
) -> None:
  remaining = response.headers.get("Content-Length")
  total = start + int(remaining) if remaining else None
  arrived = start
  with part.open("r+b" if start else "wb") as file:
    file.truncate(start)
    file.seek(start)
    _note_version(response, version)
    on_progress(arrived, total)
    while chunk := response.read1(_CHUNK_BYTES):
      file.write(chunk)
      arrived += len(chunk)
      on_progress(arrived, total)
    file.flush()
    os.fsync(file.fileno())
  if total is not None and arrived < total:
    raise ConnectionError(
      f"the connection ended after {arrived:,} of {total:,} bytes"
    )


def _note_version(
  response: http.client.HTTPResponse, version: pathlib.Path
) -> None:
  # A weak ETag does not guarantee identical bytes.
  tag = response.headers.get("ETag", "")
  name = tag if tag[:1] == '"' else response.headers.get("Last-Modified", "")
  if name:
    version.write_text(name)


def _range_start(response: http.client.HTTPResponse) -> int | None:
  text = response.headers.get("Content-Range", "")
  match = re.match(r"bytes (\d+)-", text)
  return int(match[1]) if match else None


# Downloads of TFF's native data sets: TFF's own loaders cannot resume them.


class Archive(NamedTuple):
  """A published file and its checksum."""

  url: str
  sha256: str | None = None  # None if TFF has no checksum.

  @property
  def name(self) -> str:
    """The file's name."""
    return urllib.parse.urlparse(self.url).path.rpartition("/")[2]


EMNIST_FILENAME = "emnist_all.sqlite"
_BUCKET = "https://storage.googleapis.com/tff-datasets-public"
# The files of each data set, in the order in which TFF reads them.
ARCHIVES = {
  "celeba": [Archive(f"{_BUCKET}/celeba.sqlite.lzma")],
  "cifar100": [Archive(f"{_BUCKET}/cifar100.sqlite.lzma")],
  "emnist": [Archive(f"{_BUCKET}/{EMNIST_FILENAME}.lzma")],
  "shakespeare": [Archive(f"{_BUCKET}/shakespeare.sqlite.lzma")],
  "stackoverflow": [
    Archive(f"{_BUCKET}/stackoverflow.sqlite.lzma"),
    Archive(
      f"{_BUCKET}/stackoverflow.word_count.tar.bz2",
      "1dc00256d6e527c54b9756d968118378ae14e6692c0b3b6cad470cdd3f0c519c",
    ),
    Archive(
      f"{_BUCKET}/stackoverflow.tag_count.tar.bz2",
      "6fe281cec490d9384a290d560072438e7e2b377bbb823876ce7bd6f82696772d",
    ),
  ],
}


def find_native(
  filename: str, data_dir: pathlib.Path | None, data_set: str
) -> pathlib.Path:
  """Returns the path of a TFF data set's file; downloads a missing file."""
  path = (data_dir or pathlib.Path.home() / ".tff") / filename
  if not os.path.lexists(path):
    fetch_missing(path, data_set)
  sqlite_file.check(path)
  return path


def fetch_missing(
  path: pathlib.Path, data_set: str, *, cached_in: str = "~/.tff"
) -> None:
  """Downloads a file of a TFF data set; several programs may do so at once.

  The error of a failed download suggests copying the file from `cached_in`, the
  folder to which TFF itself downloads.
  """
  directory = path.parent
  try:
    with (
      atomic.new_folder(directory),
      tempfile.TemporaryDirectory(
        prefix=".download-", dir=directory, ignore_cleanup_errors=True
      ) as staging,
    ):
      for archive in ARCHIVES[data_set]:
        if destination(archive, directory).name == path.name:
          fetch(archive, pathlib.Path(staging)).rename(path)
  except (OSError, DataError) as error:
    cause = error.__cause__ or error
    reason = " ".join(f"{type(cause).__name__}: {cause}".split())
    if isinstance(cause, DataError):
      reason = cause.problem.rstrip(".")
    raise DataError(
      path,
      f"there is no such file, and it could not be downloaded ({reason}). On "
      "a machine with network access TFF downloads it as "
      f"{cached_in}/{path.name}: copy it from there to {directory}, or name "
      "the directory that has it as data_dir (--data_dir).",
    ) from error


def destination(archive: Archive, directory: pathlib.Path) -> pathlib.Path:
  """Returns the path to which TFF's loaders would unpack an archive."""
  stem = archive.name.removesuffix(".lzma").removesuffix(".tar.bz2")
  is_table = archive.name.endswith(".tar.bz2")
  return directory / "datasets" / stem if is_table else directory / stem


def fetch(
  archive: Archive,
  directory: pathlib.Path,
  *,
  sha256: str | None = None,
  overwrite: bool = False,
  on_progress: OnProgress = lambda *_: None,
) -> pathlib.Path:
  """Downloads and unpacks an archive; returns the path of the unpacked file."""
  path = destination(archive, directory)
  data_files.check_free(path, overwrite=overwrite)
  packed = path.with_name(archive.name)
  sha256 = sha256 or archive.sha256
  if packed.exists():
    check_sha256(packed, sha256)
  else:
    from_url(archive.url, packed, sha256=sha256, on_progress=on_progress)
  with data_files.replacement(path, overwrite=overwrite) as staged:
    with (
      data_files.reporting_damage(packed, "is damaged, download it again"),
      _unpacked(packed, path.name) as source,
      staged.open("wb") as file,
    ):
      shutil.copyfileobj(data_files.limit_size(source, packed), file)
    if staged.suffix == ".sqlite":
      sqlite_file.check(staged)
  # Keeps archives of word and tag counts, which TFF unpacks at every load.
  if packed.suffix == ".lzma":
    packed.unlink()
  return path


@contextlib.contextmanager
def _unpacked(packed: pathlib.Path, name: str) -> Iterator[IO[bytes]]:
  """Opens the content of an .lzma file, or the file `name` in a tar file."""
  if packed.suffix == ".lzma":
    with lzma.open(packed) as source:
      yield source
    return
  with tarfile.open(packed) as archive:
    member = archive.extractfile(name)
    if member is None:
      raise KeyError(f"{name} is not a file")
    with member:
      yield member
