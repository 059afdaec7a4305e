"""Tests of the values that the argument `client_weighting` may have."""

import numpy as np
import pytest
import tensorflow as tf

from tests.refusals import rejected
from tff_fair import aggregators
from tff_fair.summing import client_weighting


@pytest.mark.parametrize("given", [{7: 2, 3: 0.5}, {np.int64(3): 0.5, 7: 2.0}])
def test_weights_by_id(given):
  found = client_weighting.read_client_weighting(given)
  asked = tf.constant([7, 3], tf.int64)
  np.testing.assert_array_equal(found.lookup(asked), [2.0, 0.5])
  for unknown in (-1, 5, 9):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"{unknown}"):
      found.lookup(tf.constant([3, unknown, 7], tf.int64))


@pytest.mark.parametrize("given", [[4, 2.5], (4.0, 2.5), np.array([4, 2.5])])
def test_weights_in_the_order_of_ids(given):
  found = client_weighting.read_client_weighting(given)
  asked = tf.constant([1, 0], tf.int64)
  np.testing.assert_array_equal(found.lookup(asked), [2.5, 4.0])
  assert found.lookup(asked[:0]).shape == [0]


@pytest.mark.parametrize(
  "given",
  ["column", {}, [], [1.0, 0.0], {3: -1.0}, {3: np.nan}, [np.inf], ["1"]],
)
def test_weights_that_cannot_be_used(given):
  with rejected("client_weighting"):
    aggregators.FedAvgFactory(client_weighting=given)


@pytest.mark.parametrize("given", [None, 3, {"a": 1.0}])
def test_other_values_are_refused_as_weighting(given):
  with pytest.raises(TypeError, match="client_weighting"):
    aggregators.FedAvgFactory(client_weighting=given)
