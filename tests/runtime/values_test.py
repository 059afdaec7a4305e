"""Tests of values that enter and leave a computation."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.runtime import values


@pytest.mark.parametrize("id_dtype", [np.int64, None])
def test_data_of_another_type_is_named_with_the_way_to_make_it(id_dtype):
  """Tries datasets of single examples, and a value that is no dataset."""
  runtime.use_local()
  batch_type = tff.StructType(
    [tff.TensorType(np.float32, [None, 2]), tff.TensorType(np.int32, [None])]
  )
  element = tff.StructType([id_dtype, batch_type]) if id_dtype else batch_type

  @tff.federated_computation(
    tff.FederatedType(tff.SequenceType(element), tff.CLIENTS)
  )
  def take(data):
    return data

  examples = tf.data.Dataset.from_tensor_slices(
    (np.zeros([3, 2]), np.zeros([3], np.int32))
  )
  # TFF takes only dicts whose keys are in alphabetical order.
  named = examples.map(lambda x, y: {"pixels": x, "label": y})
  for data, found in (
    (examples, "('float64[2]', 'int32')"),
    (named, "{'pixels': 'float64[2]', 'label': 'int32'}"),
    ((), "tuple"),
  ):
    with pytest.raises(TypeError) as caught:
      take([data])
    for part in (str(element), found, "tf.cast", ".batch", "OrderedDict"):
      assert part in str(caught.value)
    assert ("client_dataset" in str(caught.value)) is bool(id_dtype)


ROWS = tff.TensorType(np.float32, [None, 2])
NESTED = tff.StructType([("x", ROWS), ("y", [np.int32, np.str_])])


def test_a_value_comes_out_as_it_went_in():
  rows = np.arange(4, dtype=np.float32).reshape(2, 2)
  given = {"x": rows, "y": (3, "text")}
  ingested = values.ingest(given, NESTED)
  found = values.to_containers(ingested, NESTED)
  np.testing.assert_array_equal(found["x"], rows)
  assert found["y"][0] == 3
  assert found["y"][1] in ("text", b"text")
  assert not found["x"].flags.writeable


@pytest.mark.parametrize(
  "given",
  [
    {"x": np.zeros([2, 3], np.float32), "y": (3, "text")},
    {"x": np.zeros([2, 2], np.float32), "y": (3.5, "text")},
    {"x": np.zeros([2, 2], np.float32), "y": (3,)},
  ],
)
def test_a_value_of_another_type_is_refused(given):
  with pytest.raises(TypeError):
    values.ingest(given, NESTED)


def test_a_result_of_another_type_is_refused():
  result = values.TypedValue(3, tff.TensorType(np.int32))
  assert values.ingest(result, tff.TensorType(np.int32)) == 3
  with pytest.raises(TypeError):
    values.ingest(result, tff.TensorType(np.int64))


def test_data_come_out_with_the_shapes_of_their_type():
  data = tf.data.Dataset.range(5).batch(2)
  type_spec = tff.SequenceType(tff.TensorType(np.int64, [None]))
  ingested = values.SerializedData(values.serialize(data))
  found = values.to_containers(ingested, type_spec)
  assert found.element_spec == tf.TensorSpec([None], tf.int64)
  assert [x.tolist() for x in found.as_numpy_iterator()] == [
    [0, 1],
    [2, 3],
    [4],
  ]
