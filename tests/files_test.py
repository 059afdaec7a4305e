import errno
import os
import pathlib
from unittest import mock

import pytest

from tff_fair import files


def test_a_whole_file_takes_its_place_alone(tmp_path):
  path = tmp_path / "new" / "file"
  with files.replacement(path) as staged:
    assert staged.name == path.name
    staged.write_text("whole")
    staged.with_name("scratch").write_text("x")
    assert not path.exists()
  assert path.read_text() == "whole"
  assert os.listdir(path.parent) == ["file"]


def _write(path, *, then=lambda: None):
  with files.replacement(path) as staged:
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
  with pytest.raises(FileExistsError, match="exists already"):
    _write(path, then=lambda: path.write_text("yours"))
  assert path.read_text() == "yours"
  assert os.listdir(tmp_path) == ["file"]


def test_a_broken_link_is_not_replaced(tmp_path):
  path = tmp_path / "file"
  path.symlink_to(tmp_path / "gone")
  with (
    pytest.raises(FileExistsError, match="exists already"),
    files.replacement(path),
  ):
    pytest.fail("was begun")
  assert path.is_symlink()


def test_overwrite(tmp_path):
  path = tmp_path / "file"
  path.write_text("old")
  with files.replacement(path, overwrite=True) as staged:
    staged.write_text("new")
    assert path.read_text() == "old"
  assert path.read_text() == "new"


def test_nothing_was_written(tmp_path):
  with (
    pytest.raises(OSError, match="file: cannot be written: No such"),
    files.replacement(tmp_path / "file"),
  ):
    pass
  assert os.listdir(tmp_path) == []


def test_a_file_in_place_of_the_directory_is_named(tmp_path):
  (tmp_path / "out").touch()
  with (
    pytest.raises(OSError, match="data: cannot be written: File exists"),
    files.replacement(tmp_path / "out" / "data"),
  ):
    pytest.fail("was begun")


def test_a_file_system_that_cannot_synchronize_folders_will_do(
  tmp_path, monkeypatch
):
  sync = mock.Mock(side_effect=OSError(errno.EINVAL, "Invalid argument"))
  monkeypatch.setattr(os, "fsync", sync)
  files.sync(tmp_path)
  sync.side_effect = OSError(errno.EIO, "Input/output error")
  with pytest.raises(OSError, match="Input"):
    files.sync(tmp_path)


def test_a_file_takes_the_place_of_another(tmp_path):
  path = tmp_path / "table.csv"
  for text in ("first\n", "second\n"):
    files.write(path, text)
    assert path.read_text() == text
  assert list(tmp_path.iterdir()) == [path]


def test_what_cannot_be_written_leaves_the_file_as_it_was(
  tmp_path, monkeypatch
):
  path = tmp_path / "table.csv"
  path.write_text("whole")

  def write_half(self, text):
    with self.open("w") as file:
      file.write(text[:2])
    raise OSError("no space left")

  monkeypatch.setattr(pathlib.Path, "write_text", write_half)
  with pytest.raises(OSError, match="no space left"):
    files.write(path, "another")
  assert path.read_text() == "whole"
