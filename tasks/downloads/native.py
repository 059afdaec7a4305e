"""Downloads TFF's native data sets where TFF's own loaders look for them.

The addresses, and checksums where there are any, are read from the source of
TFF's loaders, which download without going on after an interruption.
"""

import ast
import inspect
import lzma
import pathlib
import tarfile
import textwrap
import urllib.parse
from collections.abc import Callable
from typing import NamedTuple

from tasks.downloads import fetching
from tasks.formats import data_files, sqlite_file

NAMES = ("celeba", "cifar100", "emnist", "shakespeare", "stackoverflow")

_LOADERS = ("load_data", "load_word_counts", "load_tag_counts")
_CHUNK_BYTES = 1 << 20


class Archive(NamedTuple):
  """A file as it is published.

  Attributes:
    url: Its address.
    sha256: Its checksum, if TFF knows it.
  """

  url: str
  sha256: str | None

  @property
  def name(self) -> str:
    """The file's name."""
    return urllib.parse.urlparse(self.url).path.rpartition("/")[2]


def archives(name: str) -> list[Archive]:
  """Returns the files of a data set, in the order in which TFF reads them.

  Raises:
    ValueError: If TFF has no such data set.
  """
  if name not in NAMES:
    raise ValueError(
      f"unknown data set {name!r}; valid names: {', '.join(NAMES)}"
    )
  import tensorflow_federated as tff  # noqa: PLC0415

  module = getattr(tff.simulation.datasets, name)
  return [
    archive
    for loader in _LOADERS
    if hasattr(module, loader)
    for archive in archives_in(getattr(module, loader))
  ]


def archives_in(loader: Callable[..., object]) -> list[Archive]:
  """Returns the files that a loader downloads: its calls with an `origin`."""
  source = ast.parse(textwrap.dedent(inspect.getsource(loader)))
  found = []
  for node in ast.walk(source):
    if isinstance(node, ast.Call):
      constants = {
        keyword.arg: keyword.value.value
        for keyword in node.keywords
        if isinstance(keyword.value, ast.Constant)
      }
      if "origin" in constants:
        found.append(Archive(constants["origin"], constants.get("file_hash")))
  return found


def destination(archive: Archive, directory: pathlib.Path) -> pathlib.Path:
  """Returns the path of the file that TFF's loaders unpack from an archive."""
  stem = archive.name.removesuffix(".lzma").removesuffix(".tar.bz2")
  is_table = archive.name.endswith(".tar.bz2")
  return directory / "datasets" / stem if is_table else directory / stem


def fetch(
  archive: Archive,
  directory: pathlib.Path,
  *,
  sha256: str | None = None,
  overwrite: bool = False,
  on_progress: fetching.OnProgress = lambda *_: None,
) -> pathlib.Path:
  """Downloads a file and unpacks it.

  Args:
    archive: The file.
    directory: The `cache_dir` of TFF's loaders.
    sha256: Checksum of the archive; by default the one that TFF knows.
    overwrite: Whether files that are there may be replaced.
    on_progress: Told how much has arrived.

  Returns:
    Path of the unpacked file.

  Raises:
    DataError: If there is a file already, if it cannot be downloaded, or if it
      is damaged or another.
  """
  path = destination(archive, directory)
  data_files.check_free(path, overwrite=overwrite)
  packed = path.with_name(archive.name)
  sha256 = sha256 or archive.sha256
  if packed.exists():
    fetching.check_sha256(packed, sha256)
  else:
    fetching.from_url(
      archive.url, packed, sha256=sha256, on_progress=on_progress
    )
  unpack = _unpack_lzma if packed.suffix == ".lzma" else _unpack_tar
  with data_files.replacement(path, overwrite=overwrite) as staged:
    with data_files.damage_named(packed, "is damaged, download it again"):
      unpack(packed, staged)
    if staged.suffix == ".sqlite":
      sqlite_file.check(staged)
  # TFF unpacks its tables anew each time, out of an archive that it compares.
  if packed.suffix == ".lzma":
    packed.unlink()
  return path


def _unpack_lzma(packed: pathlib.Path, target: pathlib.Path) -> None:
  with lzma.open(packed) as source, target.open("wb") as file:
    while chunk := source.read(_CHUNK_BYTES):
      file.write(chunk)


def _unpack_tar(packed: pathlib.Path, target: pathlib.Path) -> None:
  with tarfile.open(packed) as archive:
    source = archive.extractfile(target.name)
    if source is None:
      raise KeyError(f"{target.name} is no file")
    with source, target.open("wb") as file:
      while chunk := source.read(_CHUNK_BYTES):
        file.write(chunk)
