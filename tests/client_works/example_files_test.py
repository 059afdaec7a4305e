"""Tests of examples in files, in graphs of this process."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.client_works import batches, example_files

SPEC = (
  tf.TensorSpec([None, 2, 3], tf.float32),
  tf.TensorSpec([None], tf.int32),
)


def random_examples(spec, num_rows):
  generator = np.random.default_rng(0)
  arrays = [
    np.frombuffer(
      generator.bytes(
        num_rows * s.dtype.size * s.shape[1:].num_elements()
      ),  # Any bits, NaN of all kinds as well.
      s.dtype.as_numpy_dtype,
    ).reshape([num_rows, *s.shape[1:]])
    for s in tf.nest.flatten(spec)
  ]
  return tf.nest.pack_sequence_as(spec, arrays)


def write(path, examples, spec):
  contents = example_files.contents(examples, spec)
  path.write_bytes(b"".join(part.tobytes() for part in contents))
  return str(path)


@pytest.mark.parametrize("num_rows", [1, 5, 0])
@pytest.mark.parametrize(
  "spec",
  [
    SPEC,
    {
      "x": tf.TensorSpec([None, 7], tf.uint8),
      "y": tf.TensorSpec([None, 1], tf.int64),
    },
    (tf.TensorSpec([None], tf.float64), tf.TensorSpec([None, 3], tf.float16)),
  ],
)
def test_every_bit_comes_back(spec, num_rows, tmp_path):
  examples = random_examples(spec, num_rows)
  path = write(tmp_path / "client", examples, spec)
  read = tf.function(lambda p: example_files.read(p, spec))
  found = read(tf.constant(path))
  tf.nest.assert_same_structure(found, spec)
  for tensor, array in zip(
    tf.nest.flatten(found), tf.nest.flatten(examples), strict=True
  ):
    assert tensor.shape == array.shape
    assert tensor.numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize(
  ("spec", "expected"),
  [
    (SPEC, True),
    (tf.TensorSpec([None], tf.string), False),
    (tf.TensorSpec([None], tf.bool), False),
    (tf.TensorSpec([None, None], tf.float32), False),
    (tf.TensorSpec([None, 0], tf.float32), False),
    (tf.TensorSpec([], tf.float32), False),
    (tf.TensorSpec(None, tf.float32), False),
  ],
)
def test_knows_what_fits(spec, expected):
  assert example_files.can_hold((SPEC[0], spec)) == expected


def test_rows_that_are_apart_in_memory_are_put_together():
  x = np.arange(24, dtype=np.float32).reshape(2, 2, 6)[..., ::2]
  parts = example_files.contents((x, np.zeros(2, np.int32)), SPEC)
  assert parts[0].tobytes() == x.tobytes()


@pytest.mark.parametrize(
  "examples",
  [
    (np.zeros([2, 2, 3]), np.zeros(2, np.int32)),
    (np.zeros([2, 3, 2], np.float32), np.zeros(2, np.int32)),
    (np.zeros([2, 2, 3], np.float32), np.zeros(3, np.int32)),
    (np.zeros([2, 2, 3], ">f4"), np.zeros(2, np.int32)),
  ],
)
def test_other_arrays_than_the_model_takes_are_refused(examples):
  with pytest.raises(ValueError, match="Expected examples of"):
    example_files.contents(examples, SPEC)


@pytest.mark.parametrize(
  "spec", [SPEC, collections.OrderedDict(y=SPEC[1], x=SPEC[0])]
)
def test_the_graph_of_a_dataset_is_tensorflows(spec):
  make = example_files.InFiles(spec)
  data_type = batches.data_type(spec, in_files=True)
  clients = {7: "/proc/1/fd/5", -3: "", 2**62: "elsewhere"}
  datasets = [make(*client) for client in clients.items()]
  for (client_id, path), dataset in zip(clients.items(), datasets, strict=True):
    expected, _ = tff.framework.serialize_value(dataset, data_type)
    graph = tf.compat.v1.GraphDef.FromString(dataset.serialized_graph)
    theirs = tf.compat.v1.GraphDef.FromString(
      expected.sequence.serialized_graph_def
    )
    for node in (*graph.node, *theirs.node):
      node.attr.pop("metadata", None)  # A number that counts datasets.
    assert graph == theirs
    element_type = tff.types.serialize_type(dataset.element_type)
    assert element_type == expected.sequence.element_type
    (element,) = dataset
    assert int(element[0]) == client_id
    assert element[1].numpy().decode() == path


def test_a_client_is_the_same_in_a_file_and_in_messages(tmp_path):
  examples = random_examples(SPEC, 4)
  path = write(tmp_path / "client", examples, SPEC)
  element = tf.data.Dataset.from_tensors(examples)
  several = tf.data.Dataset.from_tensor_slices(examples).batch(3)
  datasets = [
    example_files.InFiles(SPEC)(7, path),
    example_files.in_messages(7, element),
    example_files.in_messages(7, several),
  ]

  @tf.function
  def rows_and_id(data):
    client = batches.ClientData(data)
    count = client.reduce(
      tf.zeros([], tf.int64),
      lambda n, element: n + tf.size(tf.nest.flatten(element)[-1], tf.int64),
      epochs=tf.constant(2, tf.int64),
    )
    return count, client.client_id()

  for data in datasets:
    assert [int(v) for v in rows_and_id(data)] == [8, 7]
  assert int(rows_and_id(types.client_dataset(7, several))[0]) == 8


def test_a_file_that_is_gone_is_an_error(tmp_path):
  with pytest.raises(tf.errors.NotFoundError, match="nowhere"):
    example_files.read(tf.constant(str(tmp_path / "nowhere")), SPEC)
