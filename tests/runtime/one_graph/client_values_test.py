"""Tests of clients' values on their way to one graph, in a worker."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime import ways
from tff_fair.client_works import batches
from tff_fair.runtime import example_files, worker_log
from tff_fair.runtime.one_graph import client_values

SPEC = (
  tf.TensorSpec([None, 3, 2], tf.float32),
  tf.TensorSpec([None], tf.int32),
)
DATA = batches.data_type(SPEC)


@tff.tensorflow.computation(DATA)
def one_client(data):
  client_id, (x, y) = data.get_single_element()
  number = tf.shape(x, tf.int64)[0]
  place = tf.cast(tf.range(1, number + 1), tf.float32)
  return (
    tf.cast(client_id, tf.float32) + tf.reduce_sum(x * place[:, None, None]),
    tf.reduce_sum(y) + tf.cast(number, tf.int32),
  )


@tff.federated_computation(tff.FederatedType(DATA, tff.CLIENTS))
def sums(data):
  return tff.federated_sum(tff.federated_map(one_client, data))


def examples(client_id, number):
  rng = np.random.default_rng(client_id)
  return (
    rng.normal(size=(number, 3, 2)).astype(np.float32),
    rng.integers(9, size=number).astype(np.int32),
  )


@pytest.fixture
def in_files(tmp_path):
  """Clients of unequal size, in two files for each array, and their arrays."""
  make = example_files.InFiles(SPEC)
  clients, arrays = [], []
  for part in ("a", "b"):
    paths = [tmp_path / f"{part}{array}" for array in "xy"]
    first = 0
    for k, number in enumerate((4, 1, 7)):
      client_id = 10 * k + (part == "b")
      rows = examples(client_id, number)
      for path, array in zip(paths, rows, strict=True):
        with path.open("ab") as file:
          file.write(array.tobytes())
      places = [example_files.Place(str(path), first) for path in paths]
      clients.append(make(client_id, number, places))
      arrays.append((client_id, rows))
      first += number
  return clients, arrays


def in_memory(arrays):
  return [
    tf.data.Dataset.from_tensors((np.int64(client_id), rows))
    for client_id, rows in arrays
  ]


def test_files_texts_and_executors_give_the_same_bits(in_files):
  clients, arrays = in_files
  order = [5, 0, 3, 1, 4, 2]
  clients = [clients[k] for k in order]
  found, expected = ways.both(lambda: sums(clients))
  ways.assert_same_bits(found, expected)
  ways.assert_same_bits(sums(in_memory(arrays[k] for k in order)), expected)
  labels = sum(int(y.sum()) + len(y) for _, (_, y) in arrays)
  assert found[1] == labels


def test_the_form_is_that_of_all_clients(in_files):
  clients, arrays = in_files
  in_memory_too = [*clients[:2], *in_memory(arrays[2:3])]

  def form(values):
    return client_values.of(values, DATA).form.name

  assert form(clients) == "files"
  assert form(in_memory_too) == form([]) == "texts"
  ways.assert_same_bits(*ways.both(lambda: sums(in_memory_too)))


@pytest.mark.parametrize(
  "values",
  [
    tf.data.Dataset.range(3),
    [tf.data.Dataset.range(3)],
    [[1]],
    [None],
    ["text"],
    [in_memory([(0, examples(0, 2))])[0], 7],
  ],
)
def test_other_values_have_no_form(values):
  assert client_values.of(values, DATA) is None


def test_arrays_of_another_type_have_no_form():
  member = tff.to_type((np.float32, tff.TensorType(np.int64, [None])))
  fitting = (np.array(0.5, np.float32), np.arange(3))
  assert client_values.of([fitting], member).form.name == "texts"
  for other in (
    (np.array(0.5), np.arange(3)),
    (np.array([0.5], np.float32), np.arange(3)),
    (np.array(0.5, np.float32),),
    np.array(0.5, np.float32),
  ):
    assert client_values.of([fitting, other], member) is None


def test_a_file_is_mapped_once_up_to_the_last_row_that_is_needed(in_files):
  clients, _ = in_files
  values = client_values.of([clients[2], clients[0], clients[4]], DATA)
  numbers, *graphs = values.sent()
  assert numbers.dtype == np.int64
  # Id, rows; for each array its file and the first row.
  np.testing.assert_array_equal(
    numbers,
    [[20, 7, 0, 5, 0, 5], [0, 4, 0, 0, 0, 0], [11, 1, 1, 4, 1, 4]],
  )
  assert [len(of_array) for of_array in graphs] == [2, 2]
  for graph, rows in zip(graphs[0], (12, 5), strict=True):
    variant = tf.raw_ops.DatasetFromGraph(graph_def=graph)
    dataset = tf.data.experimental.from_variant(variant, (SPEC[0],))
    assert len(dataset) == 1
    assert dataset.get_single_element()[0].shape == [rows, 3, 2]


def test_a_file_that_is_missing_is_told():
  places = [example_files.Place("/nowhere/rows", 0)] * 2
  clients = [example_files.InFiles(SPEC)(3, 1, places)]
  with ways.counted() as graphs, pytest.raises(Exception, match="nowhere"):
    sums(clients)
  assert graphs == [True]


def test_graphs_of_files_have_the_name_that_the_log_knows():
  graph = client_values.graph_of_file(
    "/a/file", 3, tff.TensorType(np.uint8, [None])
  )
  assert worker_log.NO_SIGN_OF_CLIENT.encode() in graph
