import json
import urllib.request

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tasks.formats import client_names
from tests.cases import one_of_each
from tests.refusals import refused, rejected
from tests.tasks import native_file

_NAMES = ("stackoverflow_word", "stackoverflow_tag")
_WORDS = ["the", "a", "loop", "array", "<URL>"]


def _example(tokens, title="", tags=""):
  texts = {"tags": tags, "title": title, "tokens": tokens, "type": "question"}
  return {"score": 1, **{name: text.encode() for name, text in texts.items()}}


class StackOverflowFiles(native_file.NativeFile):
  """Small files in the formats of TFF's Stack Overflow."""

  def __init__(self, directory):
    super().__init__(directory / "stackoverflow.sqlite")
    self.directory = directory
    self.words = directory / "stackoverflow.word_count"
    self.tags = directory / "stackoverflow.tag_count"
    self.words.write_text(
      "".join(f"{word} {9 - k}\n" for k, word in enumerate(_WORDS))
    )
    self.tags.write_text(json.dumps({"c++": 1, "python": 5, "numpy": 3}))


@pytest.fixture
def files(tmp_path):
  """Returns files of three users, one without test examples."""
  files = StackOverflowFiles(tmp_path)
  files.add(
    "train",
    "00002",
    [
      _example("the loop", "an array", "python|loops"),
      _example("a a b  a", "", "numpy|python|numpy"),
    ],
  )
  files.add("test", "00002", [_example("", "?", "")])
  files.add("train", "00001", [_example("array")])
  files.add("test", "00001", [_example("a " * 30), _example("<URL>")])
  files.add("train", "00003", [_example("left out")] * 5)
  return files


def _load(files, name="stackoverflow_word", **options):
  return tasks.load(name, data_dir=files.directory, **options)


class TestUsers:
  @pytest.mark.parametrize("name", _NAMES)
  def test_users_in_order_without_incomplete_ones(self, files, name):
    task = _load(files, name)
    assert isinstance(task.client_names, client_names.ClientNames)
    assert list(task.client_names) == ["00001", "00002"]
    assert task.train.num_examples.tolist() == [1, 2]
    assert task.test.num_examples.tolist() == [2, 1]
    assert task.description.startswith(
      "Stack Overflow: 2 users (1 without train and test sentences left out), "
      "3 train and 3 test sentences, 5 words"
    )

  def test_at_least_so_many_examples(self, files):
    task = _load(files, min_examples=2)
    assert list(task.client_names) == ["00002"]
    assert "1 users (2 without at least 2 train and any test" in (
      task.description
    )

  def test_first_examples(self, files):
    whole = _load(files).train.load(1)
    task = _load(files, max_examples=1)
    assert task.train.num_examples.tolist() == [1, 1]
    assert task.test.num_examples.tolist() == [1, 1]
    x, y = task.train.load(1)
    np.testing.assert_array_equal(x, whole[0][:1])
    np.testing.assert_array_equal(y, whole[1][:1])

  def test_cut_in_halves(self, files):
    examples = [_example(word) for word in _WORDS]
    files.add("train", "00004", examples)
    task = _load(files, test_fraction=0.5, min_examples=5)
    assert list(task.client_names) == ["00003", "00004"]
    assert task.train.num_examples.tolist() == [3, 3]
    assert task.test.num_examples.tolist() == [2, 2]
    halves = (task.train, task.test)
    words = [half.load(1)[0][:, 1].tolist() for half in halves]
    assert list(map(len, words)) == [3, 2]
    assert sorted(words[0] + words[1]) == [1, 2, 3, 4, 5]

  def test_cut_leaves_out_users_of_one_example(self, files):
    task = _load(files, test_fraction=0.01)
    assert list(task.client_names) == ["00002", "00003"]
    assert task.test.num_examples.tolist() == [1, 1]

  def test_users_are_read_when_asked_for(self, files):
    task = _load(files)
    files.execute("DELETE FROM examples WHERE client_id = '00001'")
    task.train_data(1)
    with refused("split train, client 00001", "0 examples, expected 1"):
      task.train_data(0)

  def test_one_example_cannot_be_cut(self, files):
    with rejected("max_examples", "2 or more", value=1):
      _load(files, test_fraction=0.5, max_examples=1)

  def test_no_user_is_left(self, files):
    with refused(files.path, "3 users", 6):
      _load(files, min_examples=6)


class TestWords:
  def test_numbers(self, files):
    x, y = _load(files, sequence_length=4).train.load(1)
    # 5 words; 6 means an unknown word, 7 begins and 8 ends a sentence.
    assert x.tolist() == [[7, 1, 3, 8], [7, 2, 2, 6]]
    assert y.tolist() == [[1, 3, 8, 0], [2, 2, 6, 6]]
    assert x.dtype == y.dtype == np.int32

  def test_an_empty_sentence_has_a_label(self, files):
    x, y = _load(files, sequence_length=2).test.load(1)
    assert x.tolist() == [[7, 6]]
    assert y.tolist() == [[6, 8]]

  def test_vocabulary_is_as_small_as_wanted(self, files):
    task = _load(files, vocab_size=2, sequence_length=3)
    assert task.num_classes == 6
    assert task.train.load(1)[0].tolist() == [[4, 1, 3], [4, 2, 2]]

  @pytest.mark.parametrize("sequence_length", one_of_each([3, 20]))
  def test_equals_the_baseline(self, sequence_length):
    spec = tff.simulation.baselines.ClientSpec(
      num_epochs=1, batch_size=100, shuffle_buffer_size=1
    )
    baseline = tff.simulation.baselines.stackoverflow
    expected = baseline.create_word_prediction_task(
      spec, sequence_length=sequence_length, use_synthetic_data=True
    )
    task = tasks.load(
      "stackoverflow_word", synthetic=True, sequence_length=sequence_length
    )
    data = expected.datasets
    for client_id, name in enumerate(task.client_names):
      raw = data.train_data.create_tf_dataset_for_client(name)
      (wanted,) = data.train_preprocess_fn(raw).as_numpy_iterator()
      np.testing.assert_equal(task.train.load(client_id), wanted)
    shapes = [w.shape for w in expected.model_fn().trainable_variables]
    model = task.model_fn()
    assert [w.shape for w in model.trainable_variables] == shapes

  @pytest.mark.parametrize("accuracy", ["all", "words"])
  def test_what_the_accuracy_counts(self, files, accuracy):
    task = _load(files, accuracy=accuracy, sequence_length=4, lstm_units=2)
    model = task.model_fn()
    model.forward_pass(task.train.load(1), training=False)
    _, count = model.report_local_unfinalized_metrics()["accuracy"]
    # The labels are 1 3 8 0 and 2 2 6 6.
    assert count == {"all": 7, "words": 4}[accuracy]


class TestTags:
  def test_bags_and_tags(self, files):
    task = _load(files, "stackoverflow_tag", max_words=4)
    x, y = task.train.load(1)
    assert x.tolist() == [[1, 3, 4, 0], [2, 2, 2, 0]]
    # The most frequent tags come first: python, numpy, c++.
    assert y.tolist() == [[1, 0, 0], [1, 1, 0]]
    x, y = task.test.load(1)
    assert not x.any()
    assert not y.any()

  def test_longer_than_there_is_room(self, files):
    task = _load(files, "stackoverflow_tag", max_words=2, num_tags=1)
    x, y = task.train.load(1)
    assert x.tolist() == [[1, 3], [2, 2]]
    assert y.tolist() == [[1], [1]]

  def test_equals_the_baseline(self):
    spec = tff.simulation.baselines.ClientSpec(
      num_epochs=1, batch_size=100, shuffle_buffer_size=1
    )
    baseline = tff.simulation.baselines.stackoverflow
    expected = baseline.create_tag_prediction_task(
      spec, use_synthetic_data=True
    )
    task = tasks.load("stackoverflow_tag", synthetic=True)
    reference, model = expected.model_fn(), task.model_fn()
    values = [w.numpy() for w in reference.trainable_variables]
    for variable, value in zip(model.trainable_variables, values, strict=True):
      variable.assign(value)
    data = expected.datasets
    for client_id, name in enumerate(task.client_names):
      raw = data.train_data.create_tf_dataset_for_client(name)
      (batch,) = data.train_preprocess_fn(raw).as_numpy_iterator()
      x, y = task.train.load(client_id)
      np.testing.assert_array_equal(y, batch[1])
      found = model.forward_pass((x, y), training=False)
      wanted = reference.forward_pass(batch, training=False)
      np.testing.assert_allclose(
        tf.sigmoid(found.predictions), wanted.predictions, atol=1e-6
      )
      # The baseline's loss is a sum over examples of the mean over labels.
      np.testing.assert_allclose(
        found.loss * len(y) / y.shape[1], wanted.loss, rtol=1e-5
      )
    found = model.report_local_unfinalized_metrics()
    recall = np.divide(*found["recall_at_5_accuracy"])
    hits, misses = reference.report_local_unfinalized_metrics()["recall_at_5"]
    np.testing.assert_allclose(recall, hits / (hits + misses), rtol=1e-6)


class TestBadFiles:
  @pytest.mark.parametrize(
    ("content", "place", "facts"),
    [
      (b"the 9\nloop\n", ", line 2", ["b'loop"]),
      (b"the nine\n", ", line 1", ["b'the nine"]),
      (b"the 9\nf\xfcr 8\n", ", line 2", ["UTF-8"]),
      (b"the 9\na 8\nthe 7\n", ", line 3", ["b'the'", "line 1"]),
      (b"", "", ["no words"]),
    ],
  )
  def test_words(self, files, content, place, facts):
    files.words.write_bytes(content)
    with refused(f"stackoverflow.word_count{place}", *facts):
      _load(files)

  @pytest.mark.parametrize(
    ("content", "facts"),
    [
      (b"python 5", ["JSON"]),
      (b'{"python": 5', ["JSON"]),
      (b"\xff", ["JSON"]),
      (b'["python"]', ["object"]),
      (b"{}", ["object"]),
      (b'{"python": "5"}', ["'python'", "'5'"]),
    ],
  )
  def test_tags(self, files, content, facts):
    files.tags.write_bytes(content)
    with refused("stackoverflow.tag_count", *facts):
      _load(files, "stackoverflow_tag")

  def test_counts_where_keras_puts_them(self, files):
    (files.directory / "datasets").mkdir()
    files.words.rename(files.directory / "datasets" / files.words.name)
    assert _load(files).num_clients == 2

  @pytest.mark.parametrize("name", ["words", "tags"])
  def test_counts_cannot_be_fetched(self, files, name, monkeypatch):
    def fetch(request, timeout):
      raise OSError(f"no network for {timeout} s: {request.full_url}")

    monkeypatch.setattr(urllib.request, "urlopen", fetch)
    path = getattr(files, name)
    path.unlink()
    with refused(path.name, "no network", f"~/.keras/datasets/{path.name}"):
      _load(files, "stackoverflow_tag")
    assert not (files.directory / "datasets").exists()

  def test_other_features(self, files):
    files.add("train", "00009", [{}])
    files.add("test", "00009", [_example("a")])
    task = _load(files)
    with refused("split train, client 00009", "tokens"):
      task.train_data(2)

  def test_lacks_a_split(self, files):
    files.execute("DELETE FROM client_metadata WHERE split_name = 'test'")
    with refused(files.path, "no split test", "found train"):
      _load(files)
    assert _load(files, test_fraction=0.5).num_clients == 2
