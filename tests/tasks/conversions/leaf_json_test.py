import collections
import json

import pytest

from tasks.conversions import leaf_json
from tests.refusals import refused


@pytest.fixture
def leaf(tmp_path):
  def write(data_by_user, name="data.json", **others):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    content = {
      "users": list(data_by_user),
      "num_samples": [len(data["y"]) for data in data_by_user.values()],
      "user_data": data_by_user,
      **others,
    }
    path.write_text(json.dumps(content))
    return path

  return write


def _examples(path, **settings):
  settings.setdefault("keep_splits", False)
  left_out = settings.pop("left_out", collections.Counter())
  return leaf_json.examples(leaf_json.files(path), left_out, **settings)


NUMBERS = {"x": [[0.5, 1], [2, 3]], "y": [9.0, 1]}
TEXTS = {"x": ["the", "end"], "y": ["a", "b"]}


def test_numbers_and_texts(leaf, convert):
  found = convert(_examples(leaf({"n": NUMBERS, "t": TEXTS})))
  (n,), (t,) = found["train"]["n"], found["test"]["t"]
  assert (n["x"].tolist(), n["y"].tolist()) == ([0.5, 1.0], [9])
  assert t == {"x": [b"end"], "y": [b"b"]}


def test_rows_of_texts_and_real_targets(leaf, convert):
  data = {"x": [["id", "text"], ["a", "b"]], "y": [0.5, 1.5]}
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
  path = leaf({"u": NUMBERS, "empty": {"x": [], "y": []}})
  left_out = collections.Counter()
  assert len(list(_examples(path, left_out=left_out))) == 2
  assert left_out == {"user without examples": 1}


@pytest.mark.parametrize(
  ("users", "others", "place", "facts"),
  [
    ({"u": {"x": [1], "y": [1, 2]}}, {}, ", user u", [2]),
    ({"u": {"y": [1]}}, {}, ", user u", [1]),
    ({"u": NUMBERS}, {"num_samples": [3]}, ", user u", [3]),
    ({"u": NUMBERS}, {"num_samples": []}, "", ["1 users", "0 num_samples"]),
    ({"u": NUMBERS}, {"users": ["u", "u"]}, "", ["2 users, 1 of them"]),
    ({"u": NUMBERS}, {"users": ["w"]}, ", user w", [2]),
    ({"u": NUMBERS}, {"user_data": 3}, "", ["LEAF"]),
    (
      {"u": {"x": [1, float("nan")], "y": [1, 2]}},
      {},
      ", user u, example 1",
      ["x is nan"],
    ),
    ({"u": {"x": [1], "y": [None]}}, {}, ", user u, example 0", ["y is None"]),
    (
      {"u": {"x": [[1, [2]]], "y": [1]}},
      {},
      ", user u, example 0",
      ["[1, [2]]"],
    ),
  ],
)
def test_errors_name_file_and_user(leaf, users, others, place, facts):
  with refused(f"data.json{place}", *facts):
    list(_examples(leaf(users, **others)))


def test_a_user_in_two_files(leaf, tmp_path):
  leaf({"u": NUMBERS}, "1.json")
  leaf({"u": NUMBERS}, "2.json")
  with refused("2.json, user u", "1.json"):
    list(_examples(tmp_path))


@pytest.mark.parametrize(
  ("content", "facts"),
  [
    (b'{"users": [', ["line 1, column 12", "JSON"]),
    (b"\xff\xfe\x00", []),
    (b'{"users": ["\xff"]}', ["byte 13", "UTF-8"]),
    (b"[]", ["LEAF"]),
    (b"", ["line 1, column 1", "JSON"]),
  ],
)
def test_no_json(tmp_path, content, facts):
  path = tmp_path / "data.json"
  path.write_bytes(content)
  with refused("data.json", *facts):
    list(_examples(path))


def test_missing_files(tmp_path, leaf):
  with refused(tmp_path, "LEAF"):
    leaf_json.files(tmp_path)
  leaf({"u": NUMBERS}, "train/1.json")
  with refused(tmp_path / "test", "JSON"):
    leaf_json.files(tmp_path)
