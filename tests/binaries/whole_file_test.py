"""Tests of files that are written as a whole."""

import pathlib

import pytest

from binaries import whole_file


def test_a_file_takes_the_place_of_another(tmp_path):
  path = tmp_path / "table.csv"
  for text in ("first\n", "second\n"):
    whole_file.write(path, text)
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
    whole_file.write(path, "another")
  assert path.read_text() == "whole"
