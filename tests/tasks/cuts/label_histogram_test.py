import matplotlib.image
import numpy as np
import pytest

import tasks
from tasks.cuts import label_histogram
from tests.refusals import refused


def test_counts_of_a_task():
  task = tasks.load("digits", num_clients=7)
  counts = task.label_counts
  assert counts.shape == (7, 10)
  np.testing.assert_array_equal(counts.sum(axis=1), task.train.num_examples)
  labels = task.train.load(3)[1]
  assert counts[3, labels[0]] == np.count_nonzero(labels == labels[0])


def _colors(path):
  pixels = np.round(255 * matplotlib.image.imread(path)[..., :3]).astype(int)
  return {tuple(color) for color in pixels.reshape(-1, 3)}


def test_draws_a_color_for_each_label_that_is_there(tmp_path):
  blue, orange, green = (31, 119, 180), (255, 127, 14), (44, 160, 44)
  label_histogram.draw(np.array([[5, 0, 3]]), tmp_path / "one.png")
  # The legend shows the label that no client has, too.
  assert {blue, orange, green} <= _colors(tmp_path / "one.png")
  label_histogram.draw(np.array([[5, 2], [0, 9]]), tmp_path / "two.png")
  found = _colors(tmp_path / "two.png")
  assert {blue, orange} <= found
  assert green not in found


@pytest.mark.parametrize("shape", [(1, 1), (500, 20), (40, 11)])
def test_draws_any_size(tmp_path, shape):
  counts = np.ones(shape, np.int64)
  label_histogram.draw(counts, tmp_path / "histogram.png")
  assert matplotlib.image.imread(tmp_path / "histogram.png").ndim == 3


def test_overwrites_nothing(tmp_path):
  path = tmp_path / "mine.png"
  path.write_text("mine")
  with refused("mine.png", "exists already"):
    label_histogram.draw(np.ones([2, 2]), path)
  assert path.read_text() == "mine"
