"""Tests of training labels that are noisy by a paper's rule, or corrected."""

from typing import Any

import numpy as np
import pytest
import scipy.stats

import tasks
from tasks import label_noise
from tests.refusals import rejected
from tests.tasks import tabular_data

pytestmark = pytest.mark.pure

_OUTSIDE = 99  # A class that noise never draws, so it marks labels that stay.


def _noisy(labels, kind, level, num_classes=10, seed=0):
  rng = np.random.default_rng(seed)
  return label_noise.noisy_labels(labels, kind, level, num_classes, rng)


class TestLevels:
  def test_clients_are_noisy_with_the_probability(self):
    levels = label_noise.draw_levels(20_000, 0.3, 0.5, seed=1)
    assert levels.dtype == np.float64
    count = np.count_nonzero(levels)
    assert scipy.stats.binomtest(count, 20_000, 0.3).pvalue > 1e-3
    noisy = levels[levels > 0]
    uniform = scipy.stats.uniform(0.5, 0.5).cdf
    assert scipy.stats.kstest(noisy, uniform).pvalue > 1e-3

  @pytest.mark.parametrize(
    ("noisy_clients", "least", "lowest", "highest"),
    [(0, 0.5, 0, 0), (1, 1, 1, 1), (1, 0.9, 0.9, 1), (1, 0, 0, 1)],
  )
  def test_bounds(self, noisy_clients, least, lowest, highest):
    levels = label_noise.draw_levels(500, noisy_clients, least, seed=0)
    assert levels.shape == (500,)
    assert levels.min() >= lowest
    assert levels.max() <= highest

  def test_a_client_keeps_its_level_in_a_larger_population(self):
    few, many = (label_noise.draw_levels(n, 0.5, 0.2, seed=4) for n in (7, 50))
    np.testing.assert_array_equal(few, many[:7])
    other = label_noise.draw_levels(7, 0.5, 0.2, seed=5)
    assert not np.array_equal(few, other)


class TestLabels:
  @pytest.mark.parametrize("level", [0.0, 0.001, 0.4, 0.555, 1.0])
  @pytest.mark.parametrize("count", [0, 1, 7, 1000])
  def test_the_share_is_exact_up_to_rounding(self, count, level):
    labels = np.full(count, _OUTSIDE, np.int32)
    found = _noisy(labels, "symmetric", level)
    assert found.dtype == np.int32
    assert np.count_nonzero(found != _OUTSIDE) == round(level * count)
    assert (labels == _OUTSIDE).all()  # The input does not change.

  def test_symmetric_labels_are_uniform_over_all_classes(self):
    labels = np.full(10_000, 3, np.int32)
    counts = np.bincount(_noisy(labels, "symmetric", 1.0, 5), minlength=5)
    assert scipy.stats.chisquare(counts).pvalue > 1e-3

  @pytest.mark.parametrize("level", [0.25, 1.0])
  def test_pairwise_labels_are_the_next_class(self, level):
    labels = np.arange(400, dtype=np.int32) % 4
    found = _noisy(labels, "pairwise", level, 4)
    is_wrong = found != labels
    assert np.count_nonzero(is_wrong) == 400 * level
    successor = {0: 1, 1: 2, 2: 3, 3: 0}
    assert [successor[c] for c in labels[is_wrong]] == found[is_wrong].tolist()


def _load(name, directory, **options):
  given: dict[str, dict[str, Any]] = {
    "digits": {"num_clients": 6},
    "synthetic": {"num_clients": 6},
    "table": {"file": "patients.csv", "client": "clinic", "label": "ill"},
  }
  return tasks.load(
    name, data_dir=directory, seed=2, **{**given[name], **options}
  )


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
  folder = tmp_path_factory.mktemp("table")
  tabular_data.write_table(folder)
  return folder


@pytest.mark.parametrize("kind", ["symmetric", "pairwise"])
@pytest.mark.parametrize("name", ["digits", "synthetic", "table"])
def test_training_labels_alone_are_noisy(name, kind, directory):
  options = {"noisy_clients": 0.6, "least_label_noise": 0.7}
  clean = _load(name, directory)
  noisy = _load(name, directory, label_noise=kind, **options)
  levels = noisy.train.noise_levels
  assert (noisy.train.raw is None) == (clean.train.raw is None)
  np.testing.assert_array_equal(
    levels, label_noise.draw_levels(clean.num_clients, 0.6, 0.7, seed=2)
  )
  assert f"{kind} label noise at {np.count_nonzero(levels)}" in (
    noisy.description
  )
  for k in reversed(range(clean.num_clients)):  # Any order gives the same.
    (x, y), (same_x, found) = clean.train.load(k), noisy.train.load(k)
    np.testing.assert_array_equal(same_x, x)
    np.testing.assert_array_equal(noisy.train.true_labels(k), y)
    assert found.dtype == y.dtype
    wrong = np.mean(found != y)
    assert label_noise.wrong_share(noisy.train, k) == wrong
    assert label_noise.wrong_share(clean.train, k) == 0
    share = round(levels[k] * len(y)) / len(y)
    assert wrong == share if kind == "pairwise" else wrong <= share
    np.testing.assert_array_equal(noisy.train.load(k)[1], found)
    np.testing.assert_equal(clean.test.load(k), noisy.test.load(k))
    if clean.train.raw is not None:
      np.testing.assert_array_equal(noisy.train.raw(k)[1], found)


def test_none_changes_nothing(directory):
  clean = _load("digits", directory)
  same = _load("digits", directory, label_noise="none", noisy_clients=1.0)
  assert same.description == clean.description
  assert same.train.noise_levels is None
  assert same.train.true_labels is None


def test_a_task_without_class_labels_says_so(tmp_path):
  tabular_data.write_arrays(tmp_path, y=np.linspace(0, 1, 30))
  options = {"label_noise": "symmetric"}
  with pytest.raises(ValueError, match="arrays"):
    tasks.load("arrays", data_dir=tmp_path, file="examples.npz", **options)
  name = "stackoverflow_word"
  for call in (
    lambda: tasks.check_options(name, options),
    lambda: tasks.parse_options(name, ["label_noise=none"]),
    lambda: tasks.load(name, **options),
  ):
    with pytest.raises(ValueError, match=name):
      call()
  name = "shakespeare_character"
  with pytest.raises(ValueError, match=name):
    tasks.load(name, synthetic=True, predict="every", **options)


def test_levels_out_of_range():
  for option, *values in (
    ("noisy_clients", -0.1, 1.1),
    ("least_label_noise", -1e-9, 50),
  ):
    for value in values:
      with rejected(option, "[0, 1]", value=value):
        tasks.check_options("digits", {option: value})


class TestCorrectedLabels:
  def test_they_replace_those_of_the_data(self, directory):
    task = _load("table", directory)
    y = task.train.load(1)[1]
    given = {1: (1 - y).astype(np.int64)}
    corrected = tasks.label_noise.with_labels(task, given)
    given[1][:] = 7  # The task has a copy.
    assert corrected.train.raw is not None
    for found in (corrected.train.load(1)[1], corrected.train.raw(1)[1]):
      np.testing.assert_array_equal(found, 1 - y)
      assert found.dtype == np.int32
    assert label_noise.wrong_share(corrected.train, 1) == 1
    assert label_noise.wrong_share(corrected.train, 0) == 0
    np.testing.assert_array_equal(task.train.load(1)[1], y)
    again = label_noise.with_labels(corrected, {1: y})
    np.testing.assert_array_equal(again.train.load(1)[1], y)
    assert label_noise.wrong_share(again.train, 1) == 0

  def test_true_labels_are_those_before_the_noise(self, directory):
    options = {"label_noise": "symmetric", "noisy_clients": 1.0}
    noisy = _load("synthetic", directory, **options)
    truth = _load("synthetic", directory).train.load(2)[1]
    corrected = label_noise.with_labels(noisy, {2: truth})
    assert corrected.train.true_labels is not None
    np.testing.assert_array_equal(corrected.train.true_labels(2), truth)
    assert label_noise.wrong_share(noisy.train, 2) > 0
    assert label_noise.wrong_share(corrected.train, 2) == 0
    np.testing.assert_array_equal(
      corrected.train.load(0)[1], noisy.train.load(0)[1]
    )

  def test_labels_that_do_not_fit(self, directory):
    task = _load("table", directory)
    count = int(task.train.num_examples[0])
    for labels, message in [
      ({9: np.zeros(count, int)}, "9"),
      ({0: np.zeros(count + 1, int)}, rf"\[{count}\]"),
      ({0: np.zeros(count)}, "float64"),
      ({0: np.full(count, 2)}, "0 to 1.* 2 to 2"),
      ({0: np.full(count, -1)}, "-1 to -1"),
    ]:
      with pytest.raises(ValueError, match=message):
        label_noise.with_labels(task, labels)
