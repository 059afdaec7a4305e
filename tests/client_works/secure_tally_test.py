"""Tests of training metrics in simulated secure sums."""

import collections

import numpy as np
import pytest
import tensorflow_federated as tff

from tff_fair.client_works import training

pytestmark = pytest.mark.usefixtures("secure_sums")

TALLY = tff.to_type(
  collections.OrderedDict(
    loss=[np.float32, np.float32],  # Like the loss of a Keras model.
    counts=tff.TensorType(np.int32, [2]),
    wide=np.float64,
  )
)


def total(*clients):
  @tff.federated_computation(tff.FederatedType(TALLY, tff.CLIENTS))
  def add(tally):
    return training.secure_sum(tally)

  return add(
    [
      collections.OrderedDict(loss=loss, counts=counts, wide=wide)
      for loss, counts, wide in clients
    ]
  )


def test_whole_numbers_are_exact_and_others_near():
  found = total(
    ((0.1, 317.0), [3, 0], -1234.0),
    ((-2.7, 640.0), [1000, 1], 5.0),
    ((3.3, 1.0), [7, 2**20], 0.5),
  )
  assert found["loss"][1] == 958
  assert found["wide"] == -1228.5
  np.testing.assert_array_equal(found["counts"], [1010, 2**20 + 1])
  assert found["loss"][0] == pytest.approx(0.7, abs=3 * 2**-12)
  assert np.asarray(found["loss"][0]).dtype == np.float32


def test_numbers_beyond_the_bounds_are_cut_off():
  found = total(((1e9, -1e9), [-5, 2**30], 0.0))
  assert found["loss"][0] == pytest.approx(2**20)
  assert found["loss"][1] == -(2**20)
  np.testing.assert_array_equal(found["counts"], [0, 2**20])
