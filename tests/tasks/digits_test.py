import numpy as np
import pytest
import sklearn.datasets

import tasks
from tff_fair import declared


def _client(task, client_id):
  halves = task.train.load(client_id), task.test.load(client_id)
  x, y = (np.concatenate(arrays) for arrays in zip(*halves, strict=True))
  return x, y


def _sorted_rows(x, y):
  rows = np.column_stack([x, y])
  return rows[np.lexsort(rows.T)]


@pytest.mark.parametrize(
  "options",
  [
    {},
    {"partition": "iid", "num_clients": 7},
    {"partition": "dirichlet", "concentration": 0.1, "num_clients": 100},
    {"num_clients": 1, "shards_per_client": 1, "model": "logistic_regression"},
    {"num_clients": 898, "test_fraction": 0.5},
    {"num_clients": 898, "partition": "dirichlet", "concentration": 1e-6},
  ],
  ids=str,
)
def test_clients_hold_all_digits_once(options):
  task = tasks.load("digits", seed=5, **options)
  clients = [_client(task, k) for k in range(task.num_clients)]
  x, y = (np.concatenate(arrays) for arrays in zip(*clients, strict=True))
  pixels, labels = sklearn.datasets.load_digits(return_X_y=True)
  np.testing.assert_array_equal(
    _sorted_rows(x * 16, y), _sorted_rows(pixels, labels)
  )
  assert x.dtype == np.float32
  assert (x.min(), x.max()) == (0, 1)
  assert y.dtype == np.int32
  assert min(task.train.num_examples.min(), task.test.num_examples.min()) >= 1


def test_defaults():
  task = tasks.load("digits")
  assert task.num_clients == 30
  assert task.num_classes == 10
  assert task.client_names[0] == "client_00"
  share = task.test.num_examples / (
    task.test.num_examples + task.train.num_examples
  )
  np.testing.assert_allclose(share, 0.2, atol=0.01)
  # Two shards of 30 of some 180 examples of a label: each spans one or two.
  assert all(len(np.unique(_client(task, k)[1])) <= 4 for k in range(30))


def test_partitions_differ_in_skew():
  def labels_per_client(**options):
    task = tasks.load("digits", **options)
    return np.mean([len(np.unique(_client(task, k)[1])) for k in range(30)])

  skewed = labels_per_client(partition="dirichlet", concentration=0.05)
  mild = labels_per_client(partition="dirichlet", concentration=10.0)
  assert labels_per_client(shards_per_client=1) < 2.5
  assert skewed < 6 < mild
  assert labels_per_client(partition="iid") > 9.5


def test_seed_decides_partition_and_split():
  first, second = (_client(tasks.load("digits", seed=s), 0) for s in (0, 1))
  assert not np.array_equal(first[0], second[0])


def test_train_and_test_follow_the_same_labels():
  # A client's two halves come from one shuffle, not from its first examples.
  task = tasks.load("digits", shards_per_client=2)
  gaps = []
  for k in range(task.num_clients):
    means = [split.load(k)[1].mean() for split in (task.train, task.test)]
    gaps.append(means[0] - means[1])
  assert abs(np.mean(gaps)) < 0.5


@pytest.mark.parametrize(
  "options",
  [
    {"num_clients": 0},
    {"num_clients": 899},
    {"shards_per_client": 180, "num_clients": 10},
    {"shards_per_client": 0},
    {"partition": "users"},
    {"test_data": "published"},
    {"concentration": 0.0},
    {"test_fraction": 0.0},
    {"partition": "random"},
    {"model": "cnn"},
  ],
)
def test_rejects(options):
  with pytest.raises(declared.FieldError) as error:
    tasks.load("digits", **options)
  wrong = next(iter(options))
  assert (error.value.field, error.value.value) == (wrong, options[wrong])
