import errno
import os
import pathlib
import socket
from unittest import mock

import pytest

from tff_fair.files import atomic


def test_a_whole_file_takes_its_place_alone(tmp_path):
  path = tmp_path / "new" / "file"
  with atomic.replacement(path) as staged:
    assert staged.name == path.name
    staged.write_text("whole")
    staged.with_name("scratch").write_text("x")
    assert not path.exists()
  assert path.read_text() == "whole"
  assert os.listdir(path.parent) == ["file"]


def _write(path, *, then=lambda: None):
  with atomic.replacement(path) as staged:
    staged.write_text("mine")
    then()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interruption_leaves_nothing(tmp_path, error):
  def interrupt():
    raise error

  with pytest.raises(error):
    _write(tmp_path / "a" / "b", then=interrupt)
  assert os.listdir(tmp_path) == []


def test_a_file_that_came_meanwhile_is_kept(tmp_path):
  path = tmp_path / "file"
  with pytest.raises(FileExistsError, match=str(path)):
    _write(path, then=lambda: path.write_text("yours"))
  assert path.read_text() == "yours"
  assert os.listdir(tmp_path) == ["file"]


def test_a_broken_link_is_not_replaced(tmp_path):
  path = tmp_path / "file"
  path.symlink_to(tmp_path / "gone")
  with (
    pytest.raises(FileExistsError, match=str(path)),
    atomic.replacement(path),
  ):
    pytest.fail("was begun")
  assert path.is_symlink()


def _write_folder(path):
  with atomic.move_when_complete(path, lambda: None) as staged:
    (staged / "below").mkdir(parents=True)
    (staged / "below" / "file").write_text("new")


def _make_folder(path):
  path.mkdir()
  (path / "old").touch()


@pytest.mark.parametrize("make", [_make_folder, pathlib.Path.touch])
@pytest.mark.parametrize("is_link", [False, True])
def test_a_folder_takes_the_place_of_what_is_there(tmp_path, make, is_link):
  path = target = tmp_path / "made"
  if is_link:
    target = tmp_path / "target"
    path.symlink_to("target")
  make(target)
  _write_folder(path)
  assert (path / "below" / "file").read_text() == "new"
  assert os.listdir(target) == ["below"]
  assert path.is_symlink() == is_link
  assert sorted(os.listdir(tmp_path)) == sorted({path.name, target.name})


def test_a_file_system_that_cannot_synchronize_folders_will_do(
  tmp_path, monkeypatch
):
  sync = mock.Mock(side_effect=OSError(errno.EINVAL, "Invalid argument"))
  monkeypatch.setattr(os, "fsync", sync)
  atomic.sync(tmp_path)
  sync.side_effect = OSError(errno.EIO, "Input/output error")
  with pytest.raises(OSError, match="Input"):
    atomic.sync(tmp_path)


def test_a_file_takes_the_place_of_another(tmp_path):
  path = tmp_path / "table.csv"
  for text in ("first\n", "second\n"):
    atomic.write(path, text)
    assert path.read_text() == text
  assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_what_cannot_be_written_leaves_the_files_as_they_were(
  tmp_path, monkeypatch, error
):
  path, link, other = (tmp_path / name for name in ("file", "link", "other"))
  path.write_text("whole")
  link.symlink_to(path)
  other.write_text("another")
  monkeypatch.setattr(atomic, "sync", mock.Mock(side_effect=error))
  for write in (
    lambda: atomic.write(path, "another"),
    lambda: atomic.move(other, link),
  ):
    with pytest.raises(error):
      write()
  assert path.read_text() == "whole"
  assert sorted(tmp_path.iterdir()) == [path, link, other]


def test_a_text_that_is_not_unicode_leaves_nothing(tmp_path):
  with pytest.raises(UnicodeEncodeError):
    atomic.write(tmp_path / "file", "a\ud800")
  assert os.listdir(tmp_path) == []


def _replace(path):
  with atomic.replacement(path, overwrite=True) as staged:
    staged.write_text("new")


def _write_over(path):
  atomic.write(path, "new")


def _move_over(path):
  written = path.with_name("written")
  written.write_text("new")
  atomic.move(written, path)


@pytest.mark.parametrize("write", [_replace, _write_over, _move_over])
def test_a_link_stays_and_its_file_is_replaced(tmp_path, write):
  for folder in ("links", "files"):
    (tmp_path / folder).mkdir()
  target, link = tmp_path / "files" / "target", tmp_path / "links" / "link"
  link.symlink_to("../files/target")
  for text in (None, "old"):  # First, the link leads to nothing.
    if text:
      target.write_text(text)
    write(link)
    assert link.is_symlink()
    assert target.read_text() == "new"
  assert os.listdir(link.parent) == ["link"]
  assert os.listdir(target.parent) == ["target"]


def _socket(path):
  with socket.socket(socket.AF_UNIX) as unix:
    unix.bind(os.path.relpath(path))


@pytest.mark.parametrize("write", [_replace, _write_over])
@pytest.mark.parametrize(
  ("make", "kind"),
  [
    (pathlib.Path.mkdir, "is a folder"),
    (os.mkfifo, "is a pipe"),
    (_socket, "is a socket"),
    (lambda path: path.symlink_to("/dev/null"), "is a device"),
    (lambda path: path.symlink_to(path), "symbolic links"),
  ],
)
def test_only_regular_files_are_replaced(
  tmp_path, monkeypatch, write, make, kind
):
  monkeypatch.chdir(tmp_path)  # The name of a socket must be short.
  path = tmp_path / "page.html"
  make(path)
  before = path.lstat()
  with pytest.raises(OSError, match=f"page.html: .*{kind}"):
    write(path)
  after = path.lstat()
  # Reading a link may change its access time.
  for name in ("st_ino", "st_mode", "st_mtime_ns", "st_ctime_ns"):
    assert getattr(after, name) == getattr(before, name)
  assert os.listdir(tmp_path) == ["page.html"]


@pytest.mark.parametrize("name", ["/dev/null", "/dev/stdout", "/dev/fd/1"])
def test_devices_and_open_files_are_left_alone(name):
  before = os.lstat(name).st_mode
  for overwrite in (False, True):
    with pytest.raises(FileExistsError, match=r"device|open file"):
      atomic.check_free(pathlib.Path(name), overwrite=overwrite)
  assert os.lstat(name).st_mode == before
