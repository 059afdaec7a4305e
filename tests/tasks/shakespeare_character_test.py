import gzip
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tasks.shakespeare_character import LEAF_CHARACTERS
from tests.cases import one_of_each
from tests.refusals import refused, rejected
from tests.tasks import native_file, tabular_data


class PlaysFile(native_file.NativeFile):
  """A small file in the format of TFF's Shakespeare."""

  def __init__(self, directory):
    super().__init__(directory / "shakespeare.sqlite")
    self.directory = directory

  def add(self, split, role, *speeches):
    examples = [{"snippets": speech} for speech in speeches]
    super().add(split, role, examples)


@pytest.fixture
def file(tmp_path):
  file = PlaysFile(tmp_path)
  file.add("train", "PLAY_B", b"Hark!", b"Who's there?")
  file.add("test", "PLAY_B", b"Nay, answer me.")
  file.add("train", "PLAY_A", b"Long live the king!")
  file.add("test", "PLAY_A", b"Barnardo?")
  file.add("train", "PLAY_C", b"He.")
  file.add("test", "PLAY_C", b"You come most carefully")
  return file


def _load(file, **options):
  return tasks.load(
    "shakespeare_character",
    data_dir=file.directory,
    **{"sequence_length": 4, "lstm_units": 4, **options},
  )


def _text(numbers):
  return "".join(LEAF_CHARACTERS[k] for k in numbers)


class TestLastCharacter:
  def test_windows_of_all_a_role_says(self, file):
    task = _load(file)
    assert task.client_names == ("PLAY_A", "PLAY_B")
    assert task.num_classes == 80
    assert task.train.num_examples.tolist() == [15, 14]
    x, y = task.train.load(1)
    assert x.dtype == y.dtype == np.int32
    text = "Hark!\nWho's there?"
    for k in range(14):
      assert _text(x[k]) + _text([y[k]]) == text[k : k + 5]

  def test_short_roles_are_left_out(self, file):
    # PLAY_C's three letters do not make a sequence of four and a label.
    assert "2 roles (1 with too few examples left out)" in (
      _load(file).description
    )
    with refused("shakespeare.sqlite", "3 roles"):
      _load(file, sequence_length=30)

  def test_at_least_so_many_examples(self, file):
    sums = [15 + 5, 14 + 11]
    assert _load(file, min_examples=sums[0]).num_clients == 2
    task = _load(file, min_examples=sums[0] + 1)
    assert task.client_names == ("PLAY_B",)

  def test_first_examples(self, file):
    whole = _load(file).train.load(1)
    task = _load(file, max_examples=6)
    assert task.train.num_examples.tolist() == [6, 6]
    assert task.test.num_examples.tolist() == [5, 6]
    for found, all_of_it in zip(task.train.load(1), whole, strict=True):
      np.testing.assert_array_equal(found, all_of_it[:6])

  def test_characters_that_leaf_lacks_are_left_out(self, file):
    file.add("train", "A_ODD", "Zo\u00eb #1 says".encode())
    file.add("test", "A_ODD", b"Hark!")
    x, y = _load(file).train.load(0)
    assert _text(x[0]) + _text(y) == "Zo 1 says"


class TestEveryCharacter:
  @pytest.mark.parametrize("length", one_of_each([10, 80]))
  def test_equals_the_baseline(self, length):
    spec = tff.simulation.baselines.ClientSpec(
      num_epochs=1, batch_size=100, shuffle_buffer_size=1
    )
    expected = (
      tff.simulation.baselines.shakespeare.create_character_prediction_task(
        spec, sequence_length=length, use_synthetic_data=True
      )
    )
    task = tasks.load(
      "shakespeare_character",
      synthetic=True,
      predict="every",
      sequence_length=length,
    )
    data = expected.datasets
    for client_id, name in enumerate(task.client_names):
      raw = data.train_data.create_tf_dataset_for_client(name)
      (wanted,) = data.train_preprocess_fn(raw).as_numpy_iterator()
      np.testing.assert_equal(task.train.load(client_id), wanted)
    reference, model = expected.model_fn(), task.model_fn()
    values = [w.numpy() for w in reference.trainable_variables]
    for variable, value in zip(model.trainable_variables, values, strict=True):
      variable.assign(value)
    batch = task.train.load(0)
    found = model.forward_pass(batch, training=False).predictions
    theirs = reference.forward_pass(batch, training=False).predictions
    is_text = batch[0] > 0  # The baseline masks padding.
    np.testing.assert_allclose(
      found.numpy()[is_text], theirs.numpy()[is_text], atol=1e-5
    )

  def test_padding_counts_nowhere(self, file):
    task = _load(file, predict="every", sequence_length=30)
    x, y = task.train.load(1)
    assert (y > 0).sum(axis=1).tolist() == [6, 13]
    model = task.model_fn()
    output = model.forward_pass((x, y), training=False)
    log_p = tf.nn.log_softmax(output.predictions).numpy()
    rows, columns = np.nonzero(y)
    expected = -log_p[rows, columns, y[rows, columns]].mean()
    np.testing.assert_allclose(output.loss, expected, rtol=1e-5)
    hits, count = model.report_local_unfinalized_metrics()["accuracy"]
    assert count == 19
    right = log_p.argmax(axis=-1) == y
    assert hits == right[rows, columns].sum()


class TestLeaf:
  def _write(self, directory, x, y):
    for half in ("train", "test"):
      tabular_data.write_json(directory / half / "a.json", {"HAMLET": (x, y)})

  def _load(self, directory, sequence_length=4):
    return tasks.load(
      "shakespeare_character",
      data_dir=directory,
      source="leaf",
      sequence_length=sequence_length,
      lstm_units=4,
    )

  def test_sequences(self, tmp_path):
    self._write(tmp_path, ["To b", "o_be", "} \n!"], ["e", " ", "z"])
    task = self._load(tmp_path)
    assert task.client_names == ("HAMLET",)
    x, y = task.train.load(0)
    assert [_text(row) for row in x] == ["To b", "o be", "} \n!"]
    assert _text(y) == "e z"

  @pytest.mark.parametrize(
    ("x", "y", "fact"),
    [
      (["To be"], ["a"], "example 0: x"),
      (["To b", "o be"], ["e", "or"], "example 1: y"),
      ([[1, 2]], ["a"], "example 0: x"),
    ],
  )
  def test_bad_examples(self, tmp_path, x, y, fact):
    self._write(tmp_path, x, y)
    with refused("a.json, user HAMLET", fact):
      self._load(tmp_path)

  def test_samples_are_not_split_at_random(self, tmp_path):
    tabular_data.write_json(tmp_path / "a.json", {"HAMLET": (["To b"], ["e"])})
    with refused(tmp_path, "train", "by_role"):
      self._load(tmp_path)

  def _write_texts(self, directory, **leaf):
    content = json.dumps(leaf).encode()
    path = directory / "shakespeare_leaf_by_role.json.gz"
    path.write_bytes(gzip.compress(content))
    return path

  def test_texts_by_role(self, tmp_path):
    # The role of 24 characters has 20 windows of 4: 16 for training. Of the
    # other four, one shares no character with a training window.
    text = "To be, or not to be, tha"
    self._write_texts(
      tmp_path, users=["HAMLET", "GHOST"], num_samples=[20, 1], text=[text, "O"]
    )
    task = self._load(tmp_path)
    assert task.client_names == ("HAMLET",)
    x, y = task.train.load(0)
    assert [_text(row) for row in x] == [text[k : k + 4] for k in range(16)]
    assert _text(y) == text[4:20]
    x, y = task.test.load(0)
    assert [_text(row) for row in x] == [text[19:23]]
    assert _text(y) == text[23]

  @pytest.mark.parametrize(
    "leaf",
    [
      {"users": ["A"]},
      {"users": ["A"], "text": ["B", "C"]},
      {"users": ["A", "A"], "text": ["B", "C"]},
      {"users": ["A"], "text": [1]},
      {"users": ["A"], "text": ["too short"[:4]]},
    ],
  )
  def test_bad_texts(self, tmp_path, leaf):
    path = self._write_texts(tmp_path, **leaf)
    with refused(path):
      self._load(tmp_path)

  def test_real_texts(self, real):
    task = self._load(real("shakespeare_leaf"), sequence_length=80)
    assert task.num_clients == 799
    # The rest of LEAF's 4,226,159 samples belong to small roles or overlap both
    # halves.
    assert task.train.num_examples.sum() == 3_335_126
    assert task.test.num_examples.sum() == 771_051

  def test_every_character_is_for_texts(self):
    with rejected("predict", "last", value="every"):
      tasks.load("shakespeare_character", source="leaf", predict="every")


def test_no_utf_8(file):
  file.add("train", "PLAY_D", b"fine", b"f\xfcr")
  file.add("test", "PLAY_D", b"fine too")
  with refused("split train, client PLAY_D", "example 1 ", "UTF-8"):
    _load(file)


def test_leafs_characters_are_eighty_different_ones():
  assert len(set(LEAF_CHARACTERS)) == 80
  assert json.loads(json.dumps(LEAF_CHARACTERS)).isascii()


def test_real_file(real):
  task = tasks.load(
    "shakespeare_character",
    data_dir=real("tff_cache/shakespeare.sqlite").parent,
    min_examples=10_001,
    num_clients=20,
    lstm_layers=1,
  )
  sizes = task.train.num_examples + task.test.num_examples
  assert task.num_clients == 20
  assert sizes.min() > 10_000
  x, y = task.test.load(3)
  assert x.shape == (task.test.num_examples[3], 80)
  np.testing.assert_array_equal(x[1:, -1], y[:-1])
