import hashlib
import http.server
import os
import re
import threading

import pytest

from tasks.downloads import fetching
from tests.refusals import refused

_CONTENT = bytes(range(256)) * 1000


class _Server(http.server.ThreadingHTTPServer):
  """Serves one file, as well or badly as its attributes say."""

  def __init__(self):
    super().__init__(("127.0.0.1", 0), _Handler)
    self.url = f"http://127.0.0.1:{self.server_port}/data.bin"
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
  fetching.from_url(server.url, path, **settings)


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


def test_starts_anew_when_the_file_has_changed(server, path):
  _interrupt(server, path)
  server.content, server.etag = _CONTENT[::-1], '"2"'
  _fetch(server, path)
  assert path.read_bytes() == _CONTENT[::-1]


@pytest.mark.parametrize("etag", [None, 'W/"1"'])
def test_starts_anew_when_nothing_tells_the_version(server, path, etag):
  server.etag = etag
  _interrupt(server, path)
  _fetch(server, path)
  assert path.read_bytes() == _CONTENT
  assert "Range" not in server.requests[1]


def test_starts_anew_with_a_server_without_ranges(server, path):
  _interrupt(server, path)
  server.knows_ranges = False
  _fetch(server, path)
  assert path.read_bytes() == _CONTENT


def test_a_part_that_was_whole_already(server, path):
  _interrupt(server, path)
  path.with_name("data.bin.part").write_bytes(_CONTENT)
  _fetch(server, path)
  assert path.read_bytes() == _CONTENT
  assert os.listdir(path.parent) == ["data.bin"]


def test_a_part_that_is_too_long(server, path):
  _interrupt(server, path)
  path.with_name("data.bin.part").write_bytes(_CONTENT + b"more")
  _fetch(server, path)
  assert path.read_bytes() == _CONTENT


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
  monkeypatch.setattr(fetching, "STALL_TIMEOUT", 0.2)
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
    fetching.from_url("http://127.0.0.1:9/x", path)


def test_an_existing_file_is_kept(server, path):
  path.parent.mkdir()
  path.write_text("mine")
  with refused(path, "exists already"):
    _fetch(server, path)
  assert (path.read_text(), server.requests) == ("mine", [])
  _fetch(server, path, overwrite=True)
  assert path.read_bytes() == _CONTENT
