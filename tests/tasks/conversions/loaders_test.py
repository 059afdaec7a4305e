"""Tests that TFF's own loaders can read converted data."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tasks import downloads
from tasks.conversions import (
  client_data_writer,
  image_sets,
  plays,
  stack_exchange,
)
from tests.tasks import image_data, tabular_data


def _write(path, examples, **options):
  settings = client_data_writer.SplitSettings(
    choose_test=client_data_writer.random_share(0.2, 0), **options
  )
  client_data_writer.write(path, examples, settings)


def _examples(client_data, client):
  dataset = client_data.create_tf_dataset_for_client(client)
  return list(dataset.as_numpy_iterator())


def test_emnist(tmp_path):
  directory = image_data.write_digits(tmp_path / "raw")
  _write(
    tmp_path / downloads.EMNIST_FILENAME,
    image_sets.examples_by_client(
      image_sets.mnist_images(directory), keep_splits=False
    ),
    train=image_sets.MNIST_TRAIN,
    test=image_sets.MNIST_TEST,
  )
  train, test = tff.simulation.datasets.emnist.load_data(
    only_digits=True, cache_dir=str(tmp_path)
  )
  names = [f"nist_writer_{n:04}" for n in range(1, 5)]
  assert train.client_ids == test.client_ids == names
  examples = _examples(train, names[1])
  assert len(examples) + len(_examples(test, names[1])) == 14
  assert examples[0]["pixels"].shape == (28, 28)
  assert examples[0]["pixels"].max() == 1


def test_cifar100(tmp_path):
  content = image_data.pickled(
    data=np.full([100, 3072], 255, np.uint8),
    fine_labels=list(range(100)),
    coarse_labels=[k // 5 for k in range(100)],
  )
  for name in ("train", "test"):
    (tmp_path / name).write_bytes(content)
  filename, images = image_sets.cifar_images(tmp_path)
  parts = {
    f"client_{k}": part for k, part in enumerate(np.split(np.arange(200), 4))
  }
  _write(
    tmp_path / filename,
    image_sets.examples_by_client(images, parts, keep_splits=True),
  )
  train, test = tff.simulation.datasets.cifar100.load_data(
    cache_dir=str(tmp_path)
  )
  assert train.client_ids == ["client_0", "client_1"]
  assert test.client_ids == ["client_2", "client_3"]
  example = _examples(test, "client_2")[7]
  assert (example["label"], example["coarse_label"]) == (7, 1)
  assert example["image"].dtype == np.uint8
  assert example["image"].min() == 255


def test_shakespeare(tmp_path):
  play = tmp_path / "play.txt"
  play.write_text("A B:\nOne.\n\nA B:\nTwo,\nthree.\n", encoding="utf-8")
  _write(tmp_path / plays.FILENAME, plays.Plays([play]).examples())
  halves = tff.simulation.datasets.shakespeare.load_data(
    cache_dir=str(tmp_path)
  )
  snippets = [_examples(half, "A_B")[0]["snippets"] for half in halves]
  assert sorted(snippets) == [b"One.", b"Two,\nthree."]


def _write_posts(directory, **split):
  """Converts a dump, and returns the file that has its client data."""
  posts = stack_exchange.StackExchangePosts(
    [tabular_data.write_posts(directory)], **split
  )
  _write(directory / stack_exchange.FILENAME, posts.examples())
  return directory / stack_exchange.FILENAME


def test_stackoverflow(tmp_path):
  _write_posts(tmp_path)
  train, heldout, test = tff.simulation.datasets.stackoverflow.load_data(
    cache_dir=str(tmp_path)
  )
  assert (train.client_ids, heldout.client_ids) == (["1"], ["10"])
  assert test.client_ids == ["1"]
  assert _examples(test, "1")[1] == {
    "creation_date": b"2019-01-01 00:00:00 UTC",
    "score": 9,
    "tags": b"a|b",
    "title": b"t",
    "tokens": b"so .",
    "type": b"question",
  }


def test_tff_cannot_do_without_a_split(tmp_path):
  # We refuse an empty split for this reason, until TFF is fixed.
  _write_posts(tmp_path, heldout_every=0)
  with pytest.raises(StopIteration):
    tff.simulation.datasets.stackoverflow.load_data(cache_dir=str(tmp_path))


def test_token_counts(tmp_path, monkeypatch):
  stack_exchange.write_counts(_write_posts(tmp_path), directory=tmp_path)

  def get_file(fname, **others):
    # The real function would compare the published archive's checksum.
    assert others["extract"]
    return f"{others['cache_dir']}/datasets/{fname}"

  monkeypatch.setattr(tf.keras.utils, "get_file", get_file)
  loader = tff.simulation.datasets.stackoverflow
  words = loader.load_word_counts(cache_dir=str(tmp_path), vocab_size=4)
  assert words == {".": 1, "5": 1, "7": 1, "?": 1}
  assert loader.load_tag_counts(cache_dir=str(tmp_path)) == {"a": 1, "b": 1}
