import numpy as np
import sklearn.datasets

import tasks
from tests.refusals import rejected
from tests.tasks import several_clients


def _sorted_rows(x, y):
  rows = np.column_stack([x, y])
  return rows[np.lexsort(rows.T)]


def test_clients_hold_all_digits_once():
  task = tasks.load("digits", num_clients=898, test_fraction=0.5, seed=5)
  x, y = several_clients.arrays(task.train, task.test)
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
  for k in range(30):
    _, y = several_clients.arrays(task.train, task.test, clients=[k])
    # A client has two shards of 30 examples. A label has some 180, so a shard
    # spans one or two labels.
    assert len(np.unique(y)) <= 4


def test_no_half_is_published():
  with rejected("test_data", value="published"):
    tasks.load("digits", test_data="published")
