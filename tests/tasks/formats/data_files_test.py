"""Tests that files are written whole, or not at all."""

import pytest

from tasks.formats import data_files
from tests.refusals import refused


def test_what_is_there_is_an_error_of_data(tmp_path):
  path = tmp_path / "file"
  path.touch()
  with refused(path, "exists already"):
    data_files.check_free(path, overwrite=False)
  with refused(path, "exists already"), data_files.replacement(path):
    pytest.fail("was begun")
  data_files.check_free(path, overwrite=True)


def test_what_cannot_be_written_is_an_error_of_data(tmp_path):
  path = tmp_path / "file"
  with refused(path, "No such"), data_files.replacement(path):
    pass
