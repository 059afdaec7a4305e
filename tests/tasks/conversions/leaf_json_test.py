import collections

import numpy as np
import pytest

from tasks.conversions import leaf_json
from tests.refusals import refused
from tests.tasks import tabular_data


@pytest.fixture
def leaf(tmp_path):
  def write(data, name="data.json", **others):
    return tabular_data.write_json(tmp_path / name, data, **others)

  return write


def _examples(path, **settings):
  settings.setdefault("keep_splits", False)
  left_out = settings.pop("left_out", collections.Counter())
  return leaf_json.examples(leaf_json.files(path), left_out, **settings)


NUMBERS = [[0.5, 1], [2, 3]], [9.0, 1]
TEXTS = ["the", "end"], ["a", "b"]


def test_numbers_and_texts(leaf, convert):
  found = convert(_examples(leaf({"n": NUMBERS, "t": TEXTS})))
  (n,), (t,) = found["train"]["n"], found["test"]["t"]
  assert (n["x"].tolist(), n["y"].tolist()) == ([0.5, 1.0], [9])
  assert t == {"x": [b"end"], "y": [b"b"]}


def test_rows_of_texts_and_real_targets(leaf, convert):
  data = [["id", "text"], ["a", "b"]], [0.5, 1.5]
  found = convert(_examples(leaf({"u": data})))
  assert found["train"]["u"][0]["x"] == [b"id", b"text"]
  assert found["train"]["u"][0]["y"].tolist() == [0.5]


def test_published_halves(leaf, convert, tmp_path):
  leaf({"u": NUMBERS}, "train/1.json")
  leaf({"v": NUMBERS}, "train/2.json")
  leaf({"u": TEXTS}, "test/1.json")
  found = convert(_examples(tmp_path, keep_splits=True))
  sizes = {
    split: {user: len(examples) for user, examples in users.items()}
    for split, users in found.items()
  }
  assert sizes == {"train": {"u": 2, "v": 2}, "test": {"u": 2}}


def test_users_without_examples_are_counted(leaf):
  path = leaf({"u": NUMBERS, "empty": ([], [])})
  left_out = collections.Counter()
  assert len(list(_examples(path, left_out=left_out))) == 2
  assert left_out == {"user without examples": 1}


@pytest.mark.parametrize(
  ("data", "others", "place", "facts"),
  [
    ({"u": ([1], [1, 2])}, {}, ", user u", [2]),
    ({"u": NUMBERS}, {"user_data": {"u": {"y": [1, 2]}}}, ", user u", [2]),
    ({"u": NUMBERS}, {"num_samples": [3]}, ", user u", [3]),
    ({"u": NUMBERS}, {"num_samples": []}, "", ["1 users", "0 num_samples"]),
    ({"u": NUMBERS}, {"users": ["u", "u"]}, "", ["2 users, 1 of them"]),
    ({"u": NUMBERS}, {"users": ["w"]}, ", user w", [2]),
    ({"u": NUMBERS}, {"user_data": 3}, "", ["LEAF"]),
    ({"u": NUMBERS}, {"users": 3}, "", ["LEAF"]),
    ({"u": ([1, np.nan], [1, 2])}, {}, ", user u, example 1", ["x is nan"]),
    ({"u": ([1], [None])}, {}, ", user u, example 0", ["y is None"]),
    ({"u": ([[1, [2]]], [1])}, {}, ", user u, example 0", ["[1, [2]]"]),
  ],
)
def test_errors_name_file_and_user(leaf, data, others, place, facts):
  with refused(f"data.json{place}", *facts):
    list(_examples(leaf(data, **others)))


def test_missing_files(tmp_path, leaf):
  with refused(tmp_path, "LEAF"):
    leaf_json.files(tmp_path)
  leaf({"u": NUMBERS}, "train/1.json")
  with refused(tmp_path / "test", "JSON"):
    leaf_json.files(tmp_path)
