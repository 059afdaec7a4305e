"""Tests of data with other labels."""

import numpy as np
import pytest

import tasks
from tasks import relabelling

pytestmark = pytest.mark.pure

X = np.arange(6).reshape(3, 2)
LABELS = {0: np.array([0, 1, 2]), 1: np.array([2, 2, 2])}


def load(client_id):
  return X, LABELS[client_id]


def raw(client_id):
  return {"a": X[:, 0]}, LABELS[client_id]


def test_labels_alone_are_replaced_and_the_first_ones_stay_known():
  split = tasks.Split(num_examples=np.array([3, 3]), load=load, raw=raw)
  assert split.true_labels is None
  once = relabelling.relabelled(split, lambda k, y: y + k)
  twice = relabelling.relabelled(once, lambda _, y: 10 * y)
  assert twice.raw is not None
  assert twice.true_labels is not None
  for k, labels in LABELS.items():
    x, y = twice.load(k)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(y, 10 * (labels + k))
    values, y = twice.raw(k)
    np.testing.assert_array_equal(values["a"], X[:, 0])
    np.testing.assert_array_equal(y, 10 * (labels + k))
    np.testing.assert_array_equal(twice.true_labels(k), labels)


def test_what_has_no_raw_values_gets_none():
  split = tasks.Split(num_examples=np.array([3, 3]), load=load)
  assert relabelling.relabelled(split, lambda _, y: y).raw is None
