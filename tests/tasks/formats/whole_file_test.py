import pytest

import tasks
from tasks.formats import whole_file


def test_a_file_takes_its_place(tmp_path):
  with whole_file.replacement(tmp_path / "file") as staged:
    staged.write_text("whole")
  assert (tmp_path / "file").read_text() == "whole"


def test_what_is_there_is_an_error_of_data(tmp_path):
  path = tmp_path / "file"
  path.touch()
  with pytest.raises(tasks.DataError, match="file: exists already"):
    whole_file.check_free(path, overwrite=False)
  with (
    pytest.raises(tasks.DataError, match="file: exists already"),
    whole_file.replacement(path),
  ):
    pytest.fail("was begun")
  whole_file.check_free(path, overwrite=True)


def test_what_cannot_be_written_is_an_error_of_data(tmp_path):
  with (
    pytest.raises(tasks.DataError, match="file: cannot be written: No such"),
    whole_file.replacement(tmp_path / "file"),
  ):
    pass
