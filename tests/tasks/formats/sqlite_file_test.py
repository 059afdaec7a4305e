import pathlib
import threading
import time
import urllib.error

import numpy as np
import pytest

from tasks.downloads import fetching
from tasks.formats import sqlite_file
from tests.refusals import refused

_NAME = "emnist_all.sqlite"


def _no_fetch(directory):
  raise AssertionError(f"fetched into {directory}")


def _find(path, fetch=_no_fetch):
  return sqlite_file.find(path.name, path.parent, fetch)


class TestCheck:
  def test_finds_a_good_file_and_leaves_the_directory_alone(self, emnist_file):
    before = emnist_file.path.read_bytes()
    assert _find(emnist_file.path) == emnist_file.path
    assert list(emnist_file.path.parent.iterdir()) == [emnist_file.path]
    assert emnist_file.path.read_bytes() == before

  @pytest.mark.parametrize(
    "kept", [0, 1, 15, 16, 50, 99, 100, 4096, "half", -1]
  )
  def test_truncated(self, emnist_file, kept):
    whole = emnist_file.path.read_bytes()
    part = whole[: len(whole) // 2 if kept == "half" else kept]
    emnist_file.path.write_bytes(part)
    with refused(_NAME, "truncated", f"{len(part):,} bytes"):
      _find(emnist_file.path)
    assert emnist_file.path.read_bytes() == part

  @pytest.mark.parametrize(
    "content", [b"\xfd7zXZ\0" * 100, b"<html>" * 50, b"\0" * 5000, b"x"]
  )
  def test_not_sqlite(self, tmp_path, content):
    path = tmp_path / _NAME
    path.write_bytes(content)
    with refused(_NAME, "SQLite", repr(content[:16])):
      _find(path)
    assert path.read_bytes() == content

  def test_damaged_tables(self, emnist_file):
    content = bytearray(emnist_file.path.read_bytes())
    content[100:4096] = b"\xff" * 3996
    emnist_file.path.write_bytes(content)
    with refused(_NAME, "damaged"):
      _find(emnist_file.path)

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
      _find(emnist_file.path)

  def test_missing_table(self, emnist_file):
    emnist_file.execute("DROP TABLE client_metadata")
    with refused(_NAME, "client_metadata", "found examples"):
      _find(emnist_file.path)

  def test_missing_column(self, emnist_file):
    emnist_file.execute("ALTER TABLE examples RENAME client_id TO writer")
    with refused(_NAME, "examples lacks the column client_id", ", writer"):
      _find(emnist_file.path)

  def test_broken_link_is_not_replaced(self, tmp_path):
    link = tmp_path / _NAME
    link.symlink_to(tmp_path / "gone")
    with refused(link, "No such file"):
      _find(link)
    assert link.is_symlink()

  def test_strange_directory_names(self, emnist_file, tmp_path):
    directory = tmp_path / "a?b#c %41 'é'"
    emnist_file.path.parent.rename(directory)
    counts = sqlite_file.example_counts(
      _find(directory / _NAME), ["digits_only_test"]
    )
    assert counts == [{"writer_a": 2, "writer_b": 1}]


class TestExampleCounts:
  def test_counts_by_split_and_client(self, emnist_file):
    counts = sqlite_file.example_counts(
      emnist_file.path, ["digits_only_test", "digits_only_train"]
    )
    assert counts == [
      {"writer_a": 2, "writer_b": 1},
      {"writer_a": 2, "writer_b": 3, "writer_c": 1},
    ]

  def test_missing_split(self, emnist_file):
    with refused(
      _NAME,
      "all_train",
      "digits_only_test, digits_only_train",
      "Try the others.",
    ):
      sqlite_file.example_counts(
        emnist_file.path,
        ["all_train", "digits_only_train"],
        advice="Try the others.",
      )

  def test_splits_of_other_types(self, emnist_file):
    emnist_file.execute("UPDATE client_metadata SET split_name = NULL")
    with refused(_NAME, "train", "found None"):
      sqlite_file.example_counts(emnist_file.path, ["train"])

  def test_no_clients_at_all(self, emnist_file):
    emnist_file.execute("DELETE FROM client_metadata")
    with refused(_NAME, "train", "found none"):
      sqlite_file.example_counts(emnist_file.path, ["train"])


class TestPopulation:
  _SPLITS = ("digits_only_train", "digits_only_test")

  def test_is_what_the_counts_say(self, emnist_file):
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

  def test_missing_split(self, emnist_file):
    with refused(_NAME, "all_test"):
      sqlite_file.population(emnist_file.path, ["all_test"])

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


class TestDownload:
  def _fails(self, directory, fetch, *facts):
    with refused(directory / _NAME, "--data_dir", *facts) as caught:
      sqlite_file.find(_NAME, directory, fetch)
    assert ".download" not in str(caught.value)
    assert list(directory.iterdir()) == []

  def test_arrives_whole_and_alone(self, emnist_file, tmp_path):
    content = emnist_file.path.read_bytes()

    def fetch(directory):
      (pathlib.Path(directory) / _NAME).write_bytes(content)

    directory = tmp_path / "new" / "cache"
    path = sqlite_file.find(_NAME, directory, fetch)
    assert path.read_bytes() == content
    assert list(directory.iterdir()) == [path]
    assert sqlite_file.find(_NAME, directory, _no_fetch) == path

  def test_no_network(self, tmp_path):
    def fetch(_directory):
      raise urllib.error.URLError("Name or service\nnot known")

    self._fails(tmp_path, fetch, "URLError", "not known")

  def test_interrupted(self, tmp_path):
    def fetch(directory):
      (pathlib.Path(directory) / _NAME).write_bytes(b"SQLite format 3\0...")
      raise ConnectionResetError("Connection reset by peer")

    self._fails(tmp_path, fetch, "ConnectionResetError")

  def test_incomplete_without_an_error(self, emnist_file, tmp_path):
    content = emnist_file.path.read_bytes()[:-1]
    directory = tmp_path / "empty"
    directory.mkdir()

    def fetch(directory):
      (pathlib.Path(directory) / _NAME).write_bytes(content)

    self._fails(directory, fetch, "truncated")

  def test_hangs(self, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "STALL_TIMEOUT", 0.2)
    release = threading.Event()
    self._fails(tmp_path, lambda _: release.wait(), "TimeoutError")
    release.set()

  def test_slow_is_not_hanging(self, emnist_file, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "STALL_TIMEOUT", 0.5)
    content = emnist_file.path.read_bytes()

    def fetch(directory):
      with (pathlib.Path(directory) / _NAME).open("wb", 0) as file:
        for start in range(0, len(content), len(content) // 8):
          time.sleep(0.15)
          file.write(content[start : start + len(content) // 8])

    directory = tmp_path / "slow"
    path = sqlite_file.find(_NAME, directory, fetch)
    assert path.read_bytes() == content

  def test_directory_made_for_nothing_is_removed(self, tmp_path):
    def fetch(_directory):
      raise urllib.error.URLError("no network")

    with refused(_NAME, "no network"):
      sqlite_file.find(_NAME, tmp_path / ".tff", fetch)
    assert list(tmp_path.iterdir()) == []

  def test_default_directory_is_that_of_the_loader(self, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    def fetch(_directory):
      raise urllib.error.URLError("no network")

    with refused(tmp_path / ".tff" / _NAME):
      sqlite_file.find(_NAME, None, fetch)
