import numpy as np
import pytest
import sklearn.datasets

import tasks
from tests.refusals import rejected


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


@pytest.mark.parametrize(
  "options",
  [
    {"num_clients": 899},
    {"shards_per_client": 180, "num_clients": 10},
    {"test_data": "published"},
    {"model": "cnn"},
  ],
)
def test_rejects(options):
  wrong = next(iter(options))
  with rejected(wrong, value=options[wrong]):
    tasks.load("digits", **options)
