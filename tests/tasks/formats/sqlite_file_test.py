import numpy as np
import pytest

from tasks.formats import sqlite_file
from tests.refusals import refused

_NAME = "emnist_all.sqlite"


class TestCheck:
  def test_leaves_the_directory_of_a_good_file_alone(self, emnist_file):
    before = emnist_file.path.read_bytes()
    sqlite_file.check(emnist_file.path)
    split = "digits_only_train"
    sqlite_file.population(emnist_file.path, [split])
    sqlite_file.serialized_examples(emnist_file.path, split, "writer_a")
    assert list(emnist_file.path.parent.iterdir()) == [emnist_file.path]
    assert emnist_file.path.read_bytes() == before

  @pytest.mark.parametrize("kept", [0, 1, 16, 99, 100, 4096, "half", -1])
  def test_truncated(self, emnist_file, kept):
    whole = emnist_file.path.read_bytes()
    part = whole[: len(whole) // 2 if kept == "half" else kept]
    emnist_file.path.write_bytes(part)
    with refused(_NAME, "truncated", f"{len(part):,} bytes"):
      sqlite_file.check(emnist_file.path)
    assert emnist_file.path.read_bytes() == part

  @pytest.mark.parametrize(
    "content", [b"\xfd7zXZ\0" * 100, b"<html>" * 50, b"\0" * 5000, b"x"]
  )
  def test_not_sqlite(self, tmp_path, content):
    path = tmp_path / _NAME
    path.write_bytes(content)
    with refused(_NAME, "SQLite", repr(content[:16])):
      sqlite_file.check(path)
    assert path.read_bytes() == content

  def test_damaged_tables(self, emnist_file):
    content = bytearray(emnist_file.path.read_bytes())
    content[100:4096] = b"\xff" * 3996
    emnist_file.path.write_bytes(content)
    with refused(_NAME, "damaged"):
      sqlite_file.check(emnist_file.path)

  @pytest.mark.parametrize(
    ("old", "new"),
    [
      # SQLite quotes the name of a table in its error.
      (b"tableexamplesexamples", b"tableex\xdcmplesexamples"),
      (b"CREATE TABLE examples (split", b"CREATE TABLE examples (\xdcplit"),
    ],
  )
  def test_names_that_are_no_text(self, emnist_file, old, new):
    content = emnist_file.path.read_bytes()
    assert len(new) == len(old)
    assert old in content
    emnist_file.path.write_bytes(content.replace(old, new))
    with refused(_NAME, "damaged"):
      sqlite_file.check(emnist_file.path)

  def test_missing_table(self, emnist_file):
    emnist_file.execute("DROP TABLE client_metadata")
    with refused(_NAME, "client_metadata", "found examples"):
      sqlite_file.check(emnist_file.path)

  def test_missing_column(self, emnist_file):
    emnist_file.execute("ALTER TABLE examples RENAME client_id TO writer")
    with refused(_NAME, "examples lacks the column client_id", ", writer"):
      sqlite_file.check(emnist_file.path)

  def test_broken_link_is_not_replaced(self, tmp_path):
    link = tmp_path / _NAME
    link.symlink_to(tmp_path / "gone")
    with refused(link, "No such file"):
      sqlite_file.check(link)
    assert link.is_symlink()

  def test_strange_directory_names(self, emnist_file, tmp_path):
    directory = tmp_path / "a?b#c %41 'é'"
    emnist_file.path.parent.rename(directory)
    sqlite_file.check(directory / _NAME)
    _, counts = sqlite_file.population(directory / _NAME, ["digits_only_test"])
    assert counts.tolist() == [[2], [1]]


class TestPopulation:
  _SPLITS = ("digits_only_train", "digits_only_test")

  def test_has_the_names_and_counts_of_the_metadata(self, emnist_file):
    names, counts = sqlite_file.population(emnist_file.path, self._SPLITS)
    assert list(names) == ["writer_a", "writer_b", "writer_c"]
    assert counts.tolist() == [[2, 2], [3, 1], [1, 0]]
    assert counts.dtype == np.int64

  def test_rows_of_a_client_are_added_up(self, emnist_file):
    emnist_file.add("digits_only_test", "writer_c", [1])
    emnist_file.add("digits_only_test", "writer_c", [2, 3])
    _, counts = sqlite_file.population(emnist_file.path, self._SPLITS)
    assert counts[2].tolist() == [1, 3]

  def test_other_splits_do_not_count(self, emnist_file):
    emnist_file.add("all_train", "writer_z", [1])
    names, _ = sqlite_file.population(emnist_file.path, self._SPLITS)
    assert "writer_z" not in names

  @pytest.mark.parametrize(
    ("change", "found"),
    [
      ("DELETE FROM examples", "digits_only_test, digits_only_train"),
      ("UPDATE client_metadata SET split_name = NULL", "None"),
      ("DELETE FROM client_metadata", "none"),
    ],
  )
  def test_missing_split(self, emnist_file, change, found):
    emnist_file.execute(change)
    splits = ["all_train", "digits_only_train"]
    with refused(_NAME, "all_train", f"found {found}. Try the others."):
      sqlite_file.population(emnist_file.path, splits, advice="Try the others.")

  def test_name_is_no_text(self, emnist_file):
    emnist_file.execute(
      "UPDATE client_metadata SET client_id = CAST(X'ff' AS TEXT)"
    )
    with refused(_NAME):
      sqlite_file.population(emnist_file.path, self._SPLITS)


class TestSerializedExamples:
  def _read(self, file, client, **kwargs):
    return sqlite_file.serialized_examples(
      file.path, "digits_only_train", client, **kwargs
    )

  def test_of_one_client_in_order(self, emnist_file):
    whole = self._read(emnist_file, "writer_b")
    assert len(whole) == 3
    assert all(isinstance(example, bytes) for example in whole)
    assert self._read(emnist_file, "writer_b", limit=2) == whole[:2]
    assert self._read(emnist_file, "writer_b", limit=9) == whole

  def test_names_are_values_not_statements(self, emnist_file):
    emnist_file.add("digits_only_train", "o'neill", [1])
    assert len(self._read(emnist_file, "o'neill")) == 1
    assert self._read(emnist_file, "' OR ''='") == []
