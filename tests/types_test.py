"""Tests of the datasets that processes take, and of the contract of rules."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from tff_fair import types

pytestmark = pytest.mark.pure


def test_rules_have_neutral_defaults():
  class Constant(types.Rule):
    def coefficients(self, cohort, state):
      return types.RuleOutput(cohort.weight, state)

  rule = Constant()
  assert rule.initialize() == ()
  assert rule.signals == ()
  assert rule.geometry is types.Geometry.NONE
  output = rule.coefficients(types.Cohort(0, 1.0, 1.0), ())
  assert output.measurements == {}
  with pytest.raises(TypeError, match="abstract"):
    types.Rule()  # type: ignore[abstract]


def test_rules_read_known_signals_only():
  cohort = set(types.Cohort._fields)
  signals = set(types.ClientSignals._fields)
  assert signals < cohort
  assert {"client_id", "num_examples", "loss"} < signals


def examples(n=5):
  arrays = (np.arange(n, dtype=np.float32), np.arange(n))
  return tf.data.Dataset.from_tensor_slices(arrays).batch(2)


def test_each_batch_comes_with_the_id():
  elements = list(types.client_dataset(2**40 + 1, examples()))
  assert [int(client_id) for client_id, _ in elements] == [2**40 + 1] * 3
  for (_, batch), wanted in zip(elements, examples(), strict=True):
    tf.nest.map_structure(np.testing.assert_array_equal, batch, wanted)


@pytest.mark.parametrize(
  "client_id",
  [0, -1, 2**63 - 1, -(2**63), np.int32(7), np.uint64(9), np.array(3)],
)
def test_ids_are_integers_that_fit_int64(client_id):
  dataset = types.client_dataset(client_id, examples())
  assert dataset.element_spec[0] == tf.TensorSpec([], tf.int64)
  assert next(iter(dataset))[0] == int(client_id)


@pytest.mark.parametrize("client_id", ["f0001", 1.0, None, np.float64(3), (1,)])
def test_other_ids_are_refused(client_id):
  with pytest.raises(
    TypeError, match=f"`client_id`.*{type(client_id).__name__}"
  ):
    types.client_dataset(client_id, examples())


@pytest.mark.parametrize("client_id", [2**63, -(2**63) - 1, np.uint64(2**63)])
def test_ids_that_do_not_fit_are_refused(client_id):
  with pytest.raises(ValueError, match=f"int64.* {client_id}"):
    types.client_dataset(client_id, examples())


@pytest.mark.parametrize("wrong", [np.zeros([3, 2]), [(1, 2)], None])
def test_examples_that_are_no_dataset_are_refused(wrong):
  with pytest.raises(TypeError, match=r"`examples`.*from_tensors\(\(x, y\)\)"):
    types.client_dataset(1, wrong)


def test_structures_of_batches_are_kept():
  named = examples().map(lambda x, y: collections.OrderedDict(x=x, y=y))
  spec = types.client_dataset(1, named).element_spec[1]
  assert list(spec) == ["x", "y"]
  assert spec == named.element_spec


def test_a_dataset_computation_makes_ids_of_tensors():
  @tf.function
  def first_id(client_id):
    data = types.client_dataset(client_id, examples())
    return next(iter(data))[0]

  assert first_id(tf.constant(7, tf.int32)).numpy() == 7
  names = ["ann", "bob", ""]
  ids = [int(first_id(tf.constant(name))) for name in names]
  assert len({*ids}) == 3
  assert all(0 <= k < 2**63 for k in ids)
  assert (
    int(next(iter(types.client_dataset(tf.constant("ann"), examples())))[0])
    == ids[0]
  )
  for wrong in (tf.constant([1]), tf.constant(1.0)):
    with pytest.raises(TypeError, match="scalar"):
      types.client_dataset(wrong, examples())
