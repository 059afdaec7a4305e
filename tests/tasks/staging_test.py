import errno
import os
from unittest import mock

import pytest

import tasks
from tasks import staging


def test_a_whole_file_takes_its_place_alone(tmp_path):
  path = tmp_path / "new" / "file"
  with staging.replacement(path) as staged:
    assert staged.name == path.name
    staged.write_text("whole")
    staged.with_name("scratch").write_text("x")
    assert not path.exists()
  assert path.read_text() == "whole"
  assert os.listdir(path.parent) == ["file"]


def _write(path, *, then=lambda: None):
  with staging.replacement(path) as staged:
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
  with pytest.raises(tasks.DataError, match="exists already"):
    _write(path, then=lambda: path.write_text("yours"))
  assert path.read_text() == "yours"
  assert os.listdir(tmp_path) == ["file"]


def test_a_broken_link_is_not_replaced(tmp_path):
  path = tmp_path / "file"
  path.symlink_to(tmp_path / "gone")
  with (
    pytest.raises(tasks.DataError, match="exists already"),
    staging.replacement(path),
  ):
    pytest.fail("was begun")
  assert path.is_symlink()


def test_overwrite(tmp_path):
  path = tmp_path / "file"
  path.write_text("old")
  with staging.replacement(path, overwrite=True) as staged:
    staged.write_text("new")
    assert path.read_text() == "old"
  assert path.read_text() == "new"


def test_nothing_was_written(tmp_path):
  with (
    pytest.raises(tasks.DataError, match="file: cannot be written: No such"),
    staging.replacement(tmp_path / "file"),
  ):
    pass
  assert os.listdir(tmp_path) == []


def test_a_file_system_that_cannot_synchronize_folders_will_do(
  tmp_path, monkeypatch
):
  sync = mock.Mock(side_effect=OSError(errno.EINVAL, "Invalid argument"))
  monkeypatch.setattr(os, "fsync", sync)
  staging.sync(tmp_path)
  sync.side_effect = OSError(errno.EIO, "Input/output error")
  with pytest.raises(OSError, match="Input"):
    staging.sync(tmp_path)
