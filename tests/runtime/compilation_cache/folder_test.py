"""Tests of the cache's files: they are private, whole and limited in size."""

import concurrent.futures
import os
import pathlib
from unittest import mock

import pytest

from tff_fair.runtime.compilation_cache.cache import Folder, users_path


@pytest.fixture
def path(tmp_path):
  return tmp_path / "deep" / "cache"


@pytest.fixture
def folder(path):
  """Returns a cache folder that has a file."""
  created = Folder(path)
  created.write("a", b"content")
  return created


def test_a_file_is_read_as_it_was_written(path):
  folder = Folder(path)
  assert folder.read("a") is None
  folder.write("a", b"first")
  assert Folder(path).read("a") == b"first"
  folder.write("a", b"")
  assert folder.read("a") == b""
  assert [file.name for file in path.iterdir()] == ["a"]


@pytest.mark.usefixtures("folder")
def test_folder_and_files_are_private(path):
  assert path.stat().st_mode & 0o777 == 0o700
  assert (path / "a").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o755])
def test_a_folder_that_others_may_enter_is_not_used(path, folder, mode):
  path.chmod(mode)
  assert folder.read("a") is None
  folder.write("b", b"content")
  assert not (path / "b").exists()


def test_what_others_may_have_written_is_not_read(
  path, folder, tmp_path, monkeypatch
):
  assert folder.read("a") == b"content"
  (path / "link").symlink_to(path / "a")
  assert folder.read("link") is None
  (tmp_path / "elsewhere").symlink_to(path)
  assert Folder(tmp_path / "elsewhere").read("a") is None
  user = os.geteuid()
  with monkeypatch.context() as patch:
    patch.setattr(os, "geteuid", lambda: user + 1)
    assert folder.read("a") is None
  (path / "a").chmod(0o602)
  assert folder.read("a") is None


@pytest.mark.parametrize(
  "damage",
  [
    lambda _: b"",
    lambda content: content[:-1],
    lambda content: content[:40],
    lambda content: content + b"!",
    lambda content: content[:-3] + b"x" + content[-2:],
    lambda content: b"\0" + content[1:],
  ],
)
def test_a_damaged_file_is_as_none_and_is_replaced(path, damage):
  folder = Folder(path)
  folder.write("a", b"content of some length")
  content = (path / "a").read_bytes()
  (path / "a").write_bytes(damage(content))
  (path / "b").write_bytes(content)  # A copy with a wrong name.
  (path / "b").chmod(0o600)
  assert folder.read("a") is folder.read("b") is None
  folder.write("a", b"again")
  assert folder.read("a") == b"again"


def test_those_not_used_for_the_longest_time_go_first(path):
  folder = Folder(path, most_bytes=1000)
  for name, hours in (("a", 3), ("b", 2), ("c", 1)):
    folder.write(name, bytes(200))
    used = (path / name).stat().st_mtime - 3600 * hours
    os.utime(path / name, (used, used))
  assert folder.read("a") is not None  # Used now.
  folder.write("d", bytes(200))
  folder.write("e", bytes(200))
  assert {file.name for file in path.iterdir()} == {"a", "c", "d", "e"}


def test_writers_at_the_same_time_leave_a_whole_file(path):
  contents = [bytes([n]) * 10_000 for n in range(8)]
  folder = Folder(path)
  with concurrent.futures.ThreadPoolExecutor(8) as pool:
    for content in contents * 10:
      pool.submit(folder.write, "a", content)
    found = [pool.submit(folder.read, "a") for _ in range(80)]
  assert {f.result() for f in found} <= {None, *contents}
  assert folder.read("a") in contents
  assert [file.name for file in path.iterdir()] == ["a"]


def test_a_place_that_cannot_be_a_folder_is_no_error(tmp_path):
  (tmp_path / "file").touch()
  folder = Folder(tmp_path / "file" / "cache")
  folder.write("a", b"content")
  assert folder.read("a") is None


def test_an_interruption_before_the_file_exists_is_not_lost(path, monkeypatch):
  interrupt = mock.Mock(side_effect=KeyboardInterrupt)
  monkeypatch.setattr(pathlib.Path, "touch", interrupt)
  with pytest.raises(KeyboardInterrupt):
    Folder(path).write("a", b"content")


@pytest.mark.parametrize(
  ("variables", "place"),
  [
    ({"XDG_CACHE_HOME": "/x"}, "/x/tff_fair"),
    ({"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/.cache/tff_fair"),
    ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/tff_fair"),
    ({"HOME": "relative"}, None),
  ],
)
def test_the_place_of_the_cache(monkeypatch, variables, place):
  monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
  for name, value in variables.items():
    monkeypatch.setenv(name, value)
  found = users_path()
  assert found is None if place is None else found.parent == pathlib.Path(place)
