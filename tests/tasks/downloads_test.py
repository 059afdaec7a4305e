"""Tests that downloads over HTTP and by TFF are complete, or leave nothing."""

import hashlib
import http.server
import inspect
import lzma
import os
import re
import tarfile
import threading

import pytest

from tasks import downloads
from tasks.downloads import Archive
from tests.refusals import refused

pytestmark = pytest.mark.pure

_CONTENT = bytes(range(256)) * 1000


class _Server(http.server.ThreadingHTTPServer):
  """Serves one file, with the faults that its attributes describe."""

  def __init__(self):
    super().__init__(("127.0.0.1", 0), _Handler)
    self.address = f"http://127.0.0.1:{self.server_port}"
    self.content, self.etag, self.requests = _CONTENT, '"1"', []
    self.knows_ranges, self.breaks_at = True, None
    self.status, self.shift, self.hangs = None, 0, None


class _Handler(http.server.BaseHTTPRequestHandler):
  server: _Server

  def do_GET(self):
    server, content = self.server, self.server.content
    server.requests.append(dict(self.headers))
    start = 0
    match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
    is_same = self.headers.get("If-Range") == server.etag
    if match and is_same and server.knows_ranges:
      start = int(match[1])
    if start >= len(content):
      self.send_response(416)
      self.send_header("Content-Range", f"bytes */{len(content)}")
      self.send_header("Content-Length", "0")
      self.end_headers()
      return
    self.send_response(server.status or (206 if start else 200))
    if start:
      self.send_header(
        "Content-Range",
        f"bytes {start + server.shift}-{len(content) - 1}/{len(content)}",
      )
    if server.etag:
      self.send_header("ETag", server.etag)
    self.send_header("Content-Length", str(len(content) - start))
    self.end_headers()
    self.wfile.write(content[start : server.breaks_at])
    if server.hangs is not None:
      self.wfile.flush()
      server.hangs.wait(10)

  def log_message(self, *args):
    pass


@pytest.fixture
def server():
  server = _Server()
  thread = threading.Thread(
    target=server.serve_forever, args=[0.02], daemon=True
  )
  thread.start()
  yield server
  if server.hangs is not None:
    server.hangs.set()
  server.shutdown()
  server.server_close()


@pytest.fixture
def path(tmp_path):
  return tmp_path / "new" / "data.bin"


def _fetch(server, path, **settings):
  downloads.from_url(f"{server.address}/data.bin", path, **settings)


def _interrupt(server, path, *facts):
  server.breaks_at = 100_000
  with refused(path, *facts):
    _fetch(server, path)
  server.breaks_at = None
  assert not path.exists()


def test_a_whole_file(server, path):
  seen = []
  digest = hashlib.sha256(_CONTENT).hexdigest()
  _fetch(
    server,
    path,
    sha256=digest.upper(),
    on_progress=lambda *amounts: seen.append(amounts),
  )
  assert path.read_bytes() == _CONTENT
  assert os.listdir(path.parent) == ["data.bin"]
  assert seen[0] == (0, len(_CONTENT))
  assert seen[-1] == (len(_CONTENT), len(_CONTENT))


def test_goes_on_where_it_was_interrupted(server, path):
  _interrupt(server, path, "100,000 of 256,000")
  seen = []
  _fetch(server, path, on_progress=lambda *amounts: seen.append(amounts))
  assert path.read_bytes() == _CONTENT
  assert os.listdir(path.parent) == ["data.bin"]
  assert seen[0] == (100_000, len(_CONTENT))
  assert server.requests[1]["Range"] == "bytes=100000-"


@pytest.mark.parametrize("etag", [None, 'W/"1"'])
def test_starts_anew_when_nothing_tells_the_version(server, path, etag):
  server.etag = etag
  _interrupt(server, path)
  _fetch(server, path)
  assert path.read_bytes() == _CONTENT
  assert "Range" not in server.requests[1]


@pytest.mark.parametrize(
  "change",
  [{"content": _CONTENT[::-1], "etag": '"2"'}, {"knows_ranges": False}],
  ids=["another file", "no ranges"],
)
def test_starts_anew_when_the_server_changed(server, path, change):
  _interrupt(server, path)
  vars(server).update(change)
  _fetch(server, path)
  assert path.read_bytes() == server.content


@pytest.mark.parametrize("more", [b"", b"more"])
def test_a_part_that_was_whole_already_or_is_too_long(server, path, more):
  _interrupt(server, path)
  path.with_name("data.bin.part").write_bytes(_CONTENT + more)
  _fetch(server, path)
  assert path.read_bytes() == _CONTENT
  assert os.listdir(path.parent) == ["data.bin"]


def test_another_range_than_asked_for(server, path):
  _interrupt(server, path)
  server.shift = 1
  with refused(path, "bytes 100001-"):
    _fetch(server, path)
  assert path.with_name("data.bin.part").stat().st_size == 100_000


def test_wrong_checksum_is_thrown_away(server, path):
  with refused("data.bin.part", "SHA-256", "0" * 64):
    _fetch(server, path, sha256="0" * 64)
  assert not path.parent.exists()


def test_hangs(server, path, monkeypatch):
  monkeypatch.setattr(downloads, "STALL_TIMEOUT", 0.2)
  server.hangs, server.breaks_at = threading.Event(), 70_000
  with refused(path, "timed out"):
    _fetch(server, path)
  assert path.with_name("data.bin.part").stat().st_size == 70_000


def test_refused(server, path):
  server.status = 404
  with refused(path, "Not Found"):
    _fetch(server, path)


def test_no_server(path):
  with refused(path, "refused"):
    downloads.from_url("http://127.0.0.1:9/x", path)


def test_an_existing_file_is_kept(server, path):
  path.parent.mkdir()
  path.write_text("mine")
  with refused(path, "exists already"):
    _fetch(server, path)
  assert (path.read_text(), server.requests) == ("mine", [])


# Tests of TFF's native data sets.

_NAME = "emnist_all.sqlite"


@pytest.mark.parametrize("name", downloads.ARCHIVES)
def test_addresses_are_those_of_tff(name):
  import tensorflow_federated as tff  # noqa: PLC0415

  loaders = getattr(tff.simulation.datasets, name)
  source = inspect.getsource(inspect.getmodule(loaders.load_data))
  for archive in downloads.ARCHIVES[name]:
    assert archive.url in source
    assert archive.sha256 is None or archive.sha256 in source
  assert source.count("origin=") == len(downloads.ARCHIVES[name])


def _archive(server, content, name="emnist_all.sqlite.lzma", sha256=None):
  server.content = content
  return Archive(f"{server.address}/{name}", sha256)


def test_a_data_set_is_unpacked_where_the_loader_looks(
  server, tmp_path, emnist_file
):
  content = emnist_file.path.read_bytes()
  archive = _archive(server, lzma.compress(content))
  path = downloads.fetch(archive, tmp_path / "cache")
  assert path == tmp_path / "cache" / "emnist_all.sqlite"
  assert path.read_bytes() == content
  assert list(path.parent.iterdir()) == [path]


def test_tables_are_unpacked_where_the_loader_looks(server, tmp_path):
  (tmp_path / "tags").write_text('{"a": 1}')
  with tarfile.open(tmp_path / "packed", "w:bz2") as archive:
    archive.add(tmp_path / "tags", "stackoverflow.tag_count")
  content = (tmp_path / "packed").read_bytes()
  name = "stackoverflow.tag_count.tar.bz2"
  path = downloads.fetch(_archive(server, content, name), tmp_path)
  assert path == tmp_path / "datasets" / "stackoverflow.tag_count"
  assert path.read_text() == '{"a": 1}'
  # TFF checks the archive at each load.
  assert path.with_name(name).exists()


@pytest.mark.parametrize(
  ("content", "file", "fact"),
  [
    (lzma.compress(b"x" * 1000)[:-20], "emnist_all.sqlite.lzma", "damaged"),
    (b"no lzma", "emnist_all.sqlite.lzma", "damaged"),
    (lzma.compress(b"no database"), "emnist_all.sqlite", "SQLite"),
  ],
)
def test_damaged_archives(server, tmp_path, content, file, fact):
  with refused(file, fact):
    downloads.fetch(_archive(server, content), tmp_path / "cache")
  assert not (tmp_path / "cache" / "emnist_all.sqlite").exists()


def test_wrong_checksum_of_an_archive(server, tmp_path):
  archive = _archive(server, b"anything", sha256="0" * 64)
  with refused("emnist_all.sqlite.lzma.part", "SHA-256"):
    downloads.fetch(archive, tmp_path / "cache")
  assert not (tmp_path / "cache").exists()


def test_an_archive_that_is_there_is_checked(tmp_path):
  path = tmp_path / "emnist_all.sqlite.lzma"
  path.write_bytes(b"anything")
  archive = Archive("http://127.0.0.1:9/emnist_all.sqlite.lzma", "0" * 64)
  with refused(path, "SHA-256"):
    downloads.fetch(archive, tmp_path)
  assert path.read_bytes() == b"anything"


def test_existing_data_is_kept(tmp_path):
  path = tmp_path / "emnist_all.sqlite"
  path.write_text("mine")
  archive = Archive("http://127.0.0.1:9/emnist_all.sqlite.lzma", None)
  with refused(path, "exists already"):
    downloads.fetch(archive, tmp_path)
  assert path.read_text() == "mine"


class TestFindNative:
  @pytest.fixture(autouse=True)
  def _published(self, server, monkeypatch):
    other = Archive("http://127.0.0.1:9/other.sqlite.lzma", None)
    archives = [other, Archive(f"{server.address}/{_NAME}.lzma", None)]
    monkeypatch.setitem(downloads.ARCHIVES, "emnist", archives)

  def _fails(self, directory, *facts):
    with refused(directory / _NAME, "--data_dir", *facts) as caught:
      downloads.find_native(_NAME, directory, "emnist")
    assert ".download" not in str(caught.value)
    assert "kept" not in str(caught.value)

  def test_arrives_whole_and_alone(self, server, emnist_file, tmp_path):
    content = emnist_file.path.read_bytes()
    server.content = lzma.compress(content)
    directory = tmp_path / "new" / "cache"
    for _ in range(2):
      path = downloads.find_native(_NAME, directory, "emnist")
      assert path.read_bytes() == content
    assert list(directory.iterdir()) == [path]
    assert len(server.requests) == 1

  @pytest.mark.parametrize("breaks_at", [0, 100])
  def test_interrupted(self, server, emnist_file, tmp_path, breaks_at):
    server.content = lzma.compress(emnist_file.path.read_bytes())
    server.breaks_at = breaks_at
    self._fails(tmp_path / "cache", "ConnectionError", f"after {breaks_at} of")
    assert not (tmp_path / "cache").exists()

  def test_incomplete_without_an_error(self, server, emnist_file, tmp_path):
    server.content = lzma.compress(emnist_file.path.read_bytes()[:-1])
    self._fails(tmp_path / "cache", "truncated")
    assert not (tmp_path / "cache").exists()

  def test_default_directory_is_that_of_the_loader(
    self, server, tmp_path, monkeypatch
  ):
    monkeypatch.setenv("HOME", str(tmp_path))
    server.status = 404
    with refused(tmp_path / ".tff" / _NAME, "HTTPError", "404"):
      downloads.find_native(_NAME, None, "emnist")
    # A folder that was made for a failed download is removed.
    assert list(tmp_path.iterdir()) == []
