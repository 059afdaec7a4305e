"""Tests of examples in files, in graphs of this process."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import client_dataset
from tff_fair.client_works import batches
from tff_fair.runtime import example_files

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


def write(folder, examples, spec, rows_before=0):
  """Writes arrays into files, behind others; returns where they are."""
  places = []
  parts = example_files.contents(examples, spec)
  for k, (part, s) in enumerate(zip(parts, tf.nest.flatten(spec), strict=True)):
    path = folder / f"{rows_before}_{k}"
    before = bytes(rows_before * example_files.bytes_per_row(s))
    path.write_bytes(before + part.tobytes() + b"more")
    places.append(example_files.Place(str(path), rows_before))
  return places


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
  for rows_before in (0, 1, 64):
    places = write(tmp_path, examples, spec, rows_before)
    dataset = example_files.InFiles(spec)(7, num_rows, places)
    ((client_id, found),) = dataset
    assert int(client_id) == 7
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
  with pytest.raises(ValueError, match="examples"):
    example_files.contents(examples, SPEC)


@pytest.mark.parametrize(
  "spec", [SPEC, collections.OrderedDict(y=SPEC[1], x=SPEC[0])]
)
def test_a_client_is_the_same_in_a_file_and_in_messages(spec, tmp_path):
  examples = random_examples(spec, 4)
  places = write(tmp_path, examples, spec)
  make = example_files.InFiles(spec)
  datasets = [
    make(7, 4, places),
    make(8, 3, places),  # The first one is as it was.
    client_dataset(7, tf.data.Dataset.from_tensors(examples)),
  ]
  data_type = batches.data_type(spec)

  @tff.tensorflow.computation(data_type)
  def sizes_and_id(data):
    client = batches.ClientData(data)
    sizes = client.reduce(
      [tf.zeros([], tf.int64)] * 2,
      lambda sizes, element: [
        n + tf.size(part, tf.int64)
        for n, part in zip(sizes, tf.nest.flatten(element[1]), strict=True)
      ],
      epochs=tf.constant(2, tf.int64),
    )
    return [*sizes, client.client_id()]

  in_a_row = [s.shape[1:].num_elements() for s in tf.nest.flatten(spec)]
  for dataset, num_rows, client_id in zip(
    datasets, [4, 3, 4], [7, 8, 7], strict=True
  ):
    found = [int(number) for number in sizes_and_id(dataset)]
    assert found == [*(2 * num_rows * n for n in in_a_row), client_id]


def test_a_message_has_places_alone(tmp_path):
  spec = (tf.TensorSpec([None, 1000], tf.float32), SPEC[1])
  places = write(tmp_path, random_examples(spec, 500), spec)
  dataset = example_files.InFiles(spec)(7, 500, places)
  assert len(dataset.serialized_graph) < 3000
  # TFF's own way to send the dataset, if it comes to that, sends examples.
  message, _ = tff.framework.serialize_value(dataset, batches.data_type(spec))
  assert message.ByteSize() > 500 * 1000 * 4


@pytest.mark.parametrize("num_rows", [4, 500])
def test_a_file_that_is_gone_or_cut_off_is_an_error(num_rows, tmp_path):
  places = write(tmp_path, random_examples(SPEC, 4), SPEC)
  if num_rows == 4:
    (tmp_path / "0_0").unlink()
  dataset = example_files.InFiles(SPEC)(7, num_rows, places)
  with pytest.raises(tf.errors.OpError):
    next(iter(dataset))
