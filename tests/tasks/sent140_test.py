import numpy as np
import pytest

import tasks
from tests.refusals import refused
from tests.tasks import tabular_data


def _load(directory, **options):
  return tasks.load(
    "sent140", data_dir=directory, **{"lstm_units": 4, **options}
  )


@pytest.fixture
def folder(tmp_path):
  tabular_data.write_sent140(tmp_path)
  return tmp_path


def test_words_and_labels(folder):
  task = _load(folder, sequence_length=5)
  # Words are numbered by frequency in two users' equal tweets: bad occurs 6
  # times; day and good 4 times; the others follow in alphabetical order.
  x, y = task.train.load(0)
  numbers = dict(zip(["bad", "day", "good"], [2, 3, 4], strict=True))
  alphabet = ["!", ",", "a", "it's", "so", "what"]
  numbers |= {word: k for k, word in enumerate(alphabet, 5)}
  texts = [["what", "a", "good", "day", "!"], ["bad", ",", "bad", "day"]]
  texts += [["so", "good"], ["it's", "bad"]]
  for row, text in zip(x, texts, strict=True):
    expected = [numbers[word] for word in text]
    assert row.tolist() == expected + [0] * (5 - len(expected))
  assert y.tolist() == [1, 0, 1, 0]
  # "?" and "luck" are unknown.
  assert task.test.load(0)[0][0].tolist() == [4, 1, 0, 0, 0]
  assert task.test.load(1)[0][0].tolist() == [2, 1, 0, 0, 0]


def test_small_vocabulary_and_short_tweets(folder):
  x, _ = _load(folder, vocab_size=1, sequence_length=2).train.load(0)
  assert x.tolist() == [[1, 1], [2, 1], [1, 1], [1, 2]]


def test_texts_without_columns(tmp_path):
  tabular_data.write_json(
    tmp_path / "a.json", {"u": (["good", "bad", ""], [1, 0, 0])}
  )
  task = _load(tmp_path)
  assert task.train.num_examples.tolist() == [2]


class TestGlove:
  def _write(self, folder, content):
    (folder / "glove.txt").write_bytes(content)

  def test_vectors(self, folder):
    self._write(folder, b"the 9 9\n. . 9 9\ngood 1 2\nbad 3 4\n")
    task = _load(folder, glove="glove.txt", sequence_length=4)
    assert "2 words with vectors of glove.txt" in task.description
    x, _ = task.train.load(0)
    assert x[0].tolist() == [1, 1, 3, 1]
    model = task.model_fn()
    (table,) = model.non_trainable_variables
    # The rows are padding, unknown, bad and good.
    np.testing.assert_array_equal(table, [[0, 0], [2, 3], [3, 4], [1, 2]])
    assert len(model.trainable_variables) == 8

  @pytest.mark.parametrize(
    ("content", "place", "fact"),
    [
      (b"good 1 2\nbad 3\n", ", line 2", "1 numbers, expected 2"),
      (b"good 1 2\nbad 3 -.4e-5 5\n", ", line 2", "more than 2"),
      (b"good 1 x\n", ", line 1", "'x'"),
      (b"good 1 nan\n", ", line 1", "finite"),
      (b"good\n", ", line 1", "0 numbers"),
      (b"good 1\nf\xfcr 2\n", ", line 2", "utf-8"),
      (b"the 1 2\n", "", "none"),
    ],
  )
  def test_bad_files(self, folder, content, place, fact):
    self._write(folder, content)
    with refused(f"glove.txt{place}", fact):
      _load(folder, glove="glove.txt")

  def test_no_file(self, folder):
    with refused("gl.txt", "No such file"):
      _load(folder, glove="gl.txt")


@pytest.mark.parametrize(
  ("x", "y", "facts"),
  [
    ([["1", "2"]], [0], ["example 0: x", "entry 4"]),
    (["good", 7], [0, 1], ["example 1: x"]),
    (["good"], [2], ["example 0 ", "label 2", "0 to 1"]),
    (["good"], [0.5], ["example 0 ", "label 0.5"]),
    (["good"], ["x"], ["'x'"]),
  ],
)
def test_bad_examples(folder, x, y, facts):
  tabular_data.write_json(folder / "train" / "b.json", {"u": (x, y)})
  with refused("b.json, user u", *facts):
    _load(folder)
