import functools
import http.server
import lzma
import pathlib
import tarfile
import threading

import pytest

from tasks.downloads import native
from tasks.downloads.native import Archive
from tests.refusals import refused


@pytest.fixture
def published(tmp_path):
  """A folder that is served, and its address."""
  folder = tmp_path / "published"
  folder.mkdir()
  handler = functools.partial(
    http.server.SimpleHTTPRequestHandler, directory=str(folder)
  )
  server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
  threading.Thread(
    target=server.serve_forever, args=[0.02], daemon=True
  ).start()
  yield folder, f"http://127.0.0.1:{server.server_port}"
  server.shutdown()
  server.server_close()


@pytest.mark.parametrize("name", native.NAMES)
def test_addresses_are_those_of_tff(name):
  archives = native.archives(name)
  assert archives[0].url.startswith("https://")
  stem = "emnist_all" if name == "emnist" else name
  assert archives[0].name == f"{stem}.sqlite.lzma"
  assert len(archives) == (3 if name == "stackoverflow" else 1)
  for archive in archives[1:]:
    assert archive.name.endswith("_count.tar.bz2")
    assert len(archive.sha256) == 64


def test_unknown_name():
  with pytest.raises(ValueError, match="celeba"):
    native.archives("mnist")


def test_a_data_set_is_unpacked_where_the_loader_looks(
  published, tmp_path, emnist_file
):
  folder, address = published
  content = emnist_file.path.read_bytes()
  (folder / "emnist_all.sqlite.lzma").write_bytes(lzma.compress(content))
  archive = Archive(f"{address}/emnist_all.sqlite.lzma", None)
  path = native.fetch(archive, tmp_path / "cache")
  assert path == tmp_path / "cache" / "emnist_all.sqlite"
  assert path.read_bytes() == content
  assert list(path.parent.iterdir()) == [path]


def test_tables_are_unpacked_where_the_loader_looks(published, tmp_path):
  folder, address = published
  (folder / "stackoverflow.tag_count").write_text('{"a": 1}')
  name = "stackoverflow.tag_count.tar.bz2"
  with tarfile.open(folder / name, "w:bz2") as archive:
    archive.add(folder / "stackoverflow.tag_count", "stackoverflow.tag_count")
  path = native.fetch(Archive(f"{address}/{name}", None), tmp_path)
  assert path == tmp_path / "datasets" / "stackoverflow.tag_count"
  assert path.read_text() == '{"a": 1}'
  # TFF compares the archive each time.
  assert path.with_name(name).exists()


@pytest.mark.parametrize(
  ("content", "file", "fact"),
  [
    (lzma.compress(b"x" * 1000)[:-20], "emnist_all.sqlite.lzma", "damaged"),
    (b"no lzma", "emnist_all.sqlite.lzma", "damaged"),
    (lzma.compress(b"no database"), "emnist_all.sqlite", "SQLite"),
  ],
)
def test_damaged_archives(published, tmp_path, content, file, fact):
  folder, address = published
  (folder / "emnist_all.sqlite.lzma").write_bytes(content)
  archive = Archive(f"{address}/emnist_all.sqlite.lzma", None)
  with refused(file, fact):
    native.fetch(archive, tmp_path / "cache")
  assert not (tmp_path / "cache" / "emnist_all.sqlite").exists()


def test_wrong_checksum(published, tmp_path):
  folder, address = published
  (folder / "emnist_all.sqlite.lzma").write_bytes(b"anything")
  archive = Archive(f"{address}/emnist_all.sqlite.lzma", "0" * 64)
  with refused("emnist_all.sqlite.lzma.part", "SHA-256"):
    native.fetch(archive, tmp_path / "cache")
  assert not (tmp_path / "cache").exists()


def test_an_archive_that_is_there_is_checked(tmp_path):
  path = tmp_path / "emnist_all.sqlite.lzma"
  path.write_bytes(b"anything")
  archive = Archive("http://127.0.0.1:9/emnist_all.sqlite.lzma", "0" * 64)
  with refused(path, "SHA-256"):
    native.fetch(archive, tmp_path)
  assert pathlib.Path(path).read_bytes() == b"anything"


def test_existing_data_is_kept(tmp_path):
  path = tmp_path / "emnist_all.sqlite"
  path.write_text("mine")
  archive = Archive("http://127.0.0.1:9/emnist_all.sqlite.lzma", None)
  with refused(path, "exists already"):
    native.fetch(archive, tmp_path)
  assert path.read_text() == "mine"
