"""Tests that paths in archives are not used, and that their size is limited."""

import bz2
import gzip
import io
import lzma
import tarfile

import pytest

from tasks import downloads
from tasks.data_error import DataError
from tasks.formats import data_files
from tests.tasks.tabular_data import zipped

pytestmark = pytest.mark.pure

_NAME = "words"
_ZEROS = bytes(1 << 20)


def _parts(path):
  """Yields the content of a compressed file in pieces."""
  with data_files.open_file(path) as content:
    yield from iter(lambda: content.read(1 << 12), b"")


@pytest.fixture(autouse=True)
def small_bound(monkeypatch):
  monkeypatch.setattr(data_files, "_MOST_BYTES", 1 << 18)


@pytest.mark.parametrize(
  "compress",
  [
    *(gzip.compress, bz2.compress, lzma.compress),
    lambda content: zipped(content, "../../evil.csv"),
  ],
)
def test_a_bomb_is_read_up_to_a_bound(tmp_path, compress):
  path = tmp_path / "bomb"
  path.write_bytes(compress(_ZEROS))
  parts = []
  with pytest.raises(DataError, match="bomb: unpacks to more than"):
    parts.extend(_parts(path))
  assert 0 < len(b"".join(parts)) <= 1 << 18
  # Content below the bound is read.
  path.write_bytes(compress(_ZEROS[: 1 << 17]))
  with data_files.open_file(path) as content:
    assert content.seek(5) == 5
    assert content.read() == _ZEROS[5 : 1 << 17]
  assert list(tmp_path.iterdir()) == [path]


def _fetched(folder, *members):
  """Unpacks an archive of members: each has name, type, link and content."""
  archive = downloads.Archive(f"http://localhost/{_NAME}.tar.bz2", None)
  path = downloads.destination(archive, folder).with_name(archive.name)
  path.parent.mkdir(parents=True)
  with tarfile.open(path, "w:bz2") as packed:
    for name, kind, link, content in members:
      info = tarfile.TarInfo(name)
      info.type, info.linkname, info.size = kind, link, len(content)
      packed.addfile(info, io.BytesIO(content))
  return downloads.fetch(archive, folder)


def test_an_archive_is_unpacked(tmp_path):
  path = _fetched(tmp_path, (_NAME, tarfile.REGTYPE, "", b"one"))
  assert path.read_bytes() == b"one"


@pytest.mark.parametrize(
  "member",
  [
    ("../../evil", tarfile.REGTYPE, "", b"x"),
    ("/etc/evil", tarfile.REGTYPE, "", b"x"),
    (_NAME, tarfile.SYMTYPE, "/etc/passwd", b""),
    (_NAME, tarfile.LNKTYPE, "/etc/passwd", b""),
    (_NAME, tarfile.SYMTYPE, _NAME, b""),
    (_NAME, tarfile.DIRTYPE, "", b""),
    (_NAME, tarfile.FIFOTYPE, "", b""),
    (_NAME, tarfile.REGTYPE, "", _ZEROS),
  ],
)
def test_an_archive_writes_nothing_but_its_file(tmp_path, member):
  folder = tmp_path / "data" / "below"
  with pytest.raises(DataError):
    _fetched(folder, member)
  files = [path for path in tmp_path.rglob("*") if not path.is_dir()]
  assert [path.name for path in files] == [f"{_NAME}.tar.bz2"]
