"""Tests of what is sent to a worker and comes back: TFF's very messages."""

import collections

import numpy as np
import psutil
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.kernels import stacking
from tff_fair.runtime import collecting, example_files, private_tff, sending

FLOATS = tff.TensorType(np.float32, [None, 3])
STATE = tff.StructType(
  [
    ("weights", [FLOATS, tff.TensorType(np.float64, [2])]),
    ("n", np.int32),
    ("nothing", []),
  ]
)


def state():
  return collections.OrderedDict(
    weights=[np.arange(6, dtype=np.float32).reshape(2, 3), np.ones(2)],
    n=np.int32(7),
    nothing=(),
  )


def message_of(value, type_spec):
  message = private_tff.executor_pb2.Value()
  sending.write(message, value, type_spec)
  return message


VALUES = pytest.mark.parametrize(
  ("value", "type_spec"),
  [
    (np.ones([4, 3], np.float32), FLOATS),
    (np.zeros([0, 3], np.float32), FLOATS),
    (np.ones([3, 4], np.float32).T, FLOATS),
    (np.ones([8, 3], np.float32)[::2], FLOATS),
    (np.ones([4, 3], ">f4"), FLOATS),
    (np.float32(2), np.float32),
    (np.array(2.0, np.float32), np.float32),
    (2.5, np.float32),
    ([1, 2], tff.TensorType(np.int64, [2])),
    (np.array([True, False]), tff.TensorType(np.bool_, [2])),
    (np.ones(2, np.complex64), tff.TensorType(np.complex64, [2])),
    (np.array(["a", "bc"]), tff.TensorType(np.str_, [None])),
    ((), []),
    ((np.int32(1), {"a": np.ones(2)}), (np.int32, [("a", (np.float64, [2]))])),
    (state(), STATE),
    (tff.structure.from_container(state(), recursive=True), STATE),
    (state(), tff.FederatedType(STATE, tff.SERVER)),
    ([state(), state()], tff.FederatedType(STATE, tff.CLIENTS)),
    ([], tff.FederatedType(STATE, tff.CLIENTS)),
    (state(), tff.FederatedType(STATE, tff.CLIENTS, all_equal=True)),
    (
      [np.ones([1, 3], np.float32), np.ones([5, 3], np.float32)],
      tff.FederatedType(FLOATS, tff.CLIENTS),
    ),
  ],
  ids=str,
)


@VALUES
def test_a_message_is_that_of_tff(value, type_spec):
  type_spec = tff.to_type(type_spec)
  expected, _ = tff.framework.serialize_value(value, type_spec)
  assert message_of(value, type_spec) == expected


def described(value):
  if isinstance(value, tff.structure.Struct):
    return [(n, described(v)) for n, v in tff.structure.iter_elements(value)]
  if isinstance(value, list):
    return [*map(described, value)]
  return type(value), getattr(value, "dtype", None), np.asarray(value).tolist()


@VALUES
def test_a_message_is_read_as_by_tff(value, type_spec):
  type_spec = tff.to_type(type_spec)
  message, _ = tff.framework.serialize_value(value, type_spec)
  if isinstance(type_spec, tff.FederatedType) and not message.federated.value:
    with pytest.raises(ValueError, match="no data"):
      sending.read(message, type_spec)
    return
  expected, _ = tff.framework.deserialize_value(message, type_spec)
  assert described(sending.read(message, type_spec)) == described(expected)


def test_datasets_are_sent():
  data_type = tff.SequenceType(tff.TensorType(np.int64, []))
  data = [tf.data.Dataset.range(n) for n in (2, 3)]
  message = message_of(data, tff.FederatedType(data_type, tff.CLIENTS))
  for sent, dataset in zip(message.federated.value, data, strict=True):
    found, _ = tff.framework.deserialize_value(sent, data_type)
    assert [*found] == [*dataset]


def test_the_graph_that_a_dataset_brings_is_sent():
  data_type = tff.SequenceType(tff.TensorType(np.int64, []))
  expected, _ = tff.framework.serialize_value(
    tf.data.Dataset.range(3), data_type
  )
  data = example_files.KnownGraph(
    expected.sequence.serialized_graph_def, data_type.element
  )
  assert message_of(data, data_type) == expected
  with pytest.raises(TypeError, match="int32"):
    message_of(data, tff.SequenceType(tff.TensorType(np.int32, [])))


@pytest.mark.parametrize(
  ("value", "type_spec"),
  [
    (np.ones(3, np.float64), tff.TensorType(np.float32, [3])),
    (np.ones(3, np.float32), tff.TensorType(np.float32, [4])),
    (np.ones([3, 3], np.float32), tff.TensorType(np.float32, [3])),
    (np.array([None]), tff.TensorType(np.float32, [1])),
    ("text", np.float32),
    ((1,), (np.int32, np.int32)),
    ((1, 2, 3), (np.int32, np.int32)),
    (np.ones(2), tff.FederatedType(np.float64, tff.CLIENTS)),
  ],
  ids=str,
)
def test_what_does_not_fit_is_refused_as_by_tff(value, type_spec):
  type_spec = tff.to_type(type_spec)
  with pytest.raises(TypeError) as expected:
    tff.framework.serialize_value(value, type_spec)
  with pytest.raises(TypeError) as found:
    message_of(value, type_spec)
  assert str(found.value) == str(expected.value)


@pytest.mark.parametrize("stream_structs", [False, True])
def test_values_arrive(stream_structs):
  runtime.use_local(stream_structs=stream_structs)

  @tff.tensorflow.computation(STATE, np.int32)
  def doubled(state, factor):
    return [x * tf.cast(factor, x.dtype) for x in state["weights"]]

  first, second = doubled(state(), 2)
  np.testing.assert_array_equal(first, 2 * state()["weights"][0])
  np.testing.assert_array_equal(second, 2 * state()["weights"][1])


def test_rounds_leave_nothing_in_the_worker():
  """A value in a worker holds on to what was collected to compute it."""
  runtime.use_local()
  size, num_clients = 2**17, 16
  weights_type = tff.TensorType(np.float32, [size])
  collect = collecting.build_collect(
    weights_type,
    zero=lambda: stacking.no_rows(tf.TensorSpec([size])),
    accumulate=lambda rows, row: tf.concat([rows, row[tf.newaxis]], 0),
    merge=lambda first, second: tf.concat([first, second], 0),
  )

  @tff.tensorflow.computation(
    weights_type, collect.type_signature.result.member
  )
  def add_mean(weights, rows):
    return weights + tf.reduce_mean(rows, axis=0), tf.shape(rows)[0]

  @tff.tensorflow.computation(weights_type, np.float32)
  def fill(weights, number):
    return tf.fill(tf.shape(weights), number)

  @tff.federated_computation(
    tff.FederatedType(weights_type, tff.SERVER),
    tff.FederatedType(np.float32, tff.CLIENTS),
  )
  def step(weights, numbers):
    rows = tff.federated_map(fill, (tff.federated_broadcast(weights), numbers))
    return tff.federated_map(add_mean, (weights, collect(rows)))

  def resident_bytes():
    (pid,) = runtime.worker_pids()
    return psutil.Process(pid).memory_info().rss

  weights, seen = np.zeros(size, np.float32), []
  for _ in range(40):
    weights, number = step(weights, [np.float32(1)] * num_clients)
    assert number == num_clients
    seen.append(resident_bytes())
  assert weights[-1] == 40.0
  # The heap fills up to its size; half of what the last 20 rounds collected.
  assert seen[-1] - seen[19] < 10 * num_clients * weights.nbytes


@pytest.mark.parametrize("id_dtype", [np.int64, None])
def test_data_of_another_type_is_named_with_the_way_to_make_it(id_dtype):
  """What TFF's own data, or a table that is not batched, looks like."""
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
  # TFF takes no dicts whose names are in another order than that of letters.
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
