"""Files of rows that a graph maps into memory once, for all clients.

TensorFlow maps a file by an operation that has the path as an attribute. So a
file is sent as the graph of a dataset with one element, all rows of the file.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import worker_log


def graph_of(path: str, num_rows: int, array: tff.TensorType) -> bytes:
  """Returns the graph of a file's dataset.

  Args:
    path: The file, as the worker finds it.
    num_rows: How many of its rows are needed; it may have more.
    array: The type of what the rows are of.
  """
  graph_def = type(template := _template(array))()
  graph_def.CopyFrom(template)
  (file,) = (node for node in graph_def.node if node.op == "ImmutableConst")
  file.attr["memory_region_name"].s = path.encode()
  file.attr["shape"].shape.dim[0].size = num_rows
  return bytes(graph_def.SerializeToString())


@functools.cache
def _template(array: tff.TensorType) -> Any:
  """Returns the graph, with path and number of rows to be filled in."""
  dtype = tf.as_dtype(array.dtype)
  with tf.Graph().as_default() as graph:
    rows = tf.raw_ops.ImmutableConst(
      dtype=dtype, shape=[0, *array.shape[1:]], memory_region_name=""
    )
    tf.raw_ops.TensorDataset(
      components=[rows],
      output_shapes=[array.shape],
      name=worker_log.NO_SIGN_OF_CLIENT,
    )
  graph_def = graph.as_graph_def()
  result = graph_def.node.add(name="dataset", op="_Retval")
  result.input.append(worker_log.NO_SIGN_OF_CLIENT)
  result.attr["T"].type = tf.variant.as_datatype_enum
  result.attr["index"].i = 0
  return graph_def


def mapped(graphs: tf.Tensor, array: tff.TensorType) -> tf.TensorArray:
  """Returns the rows of each file.

  Args:
    graphs: string[F], those of the files.
    array: The type of what the rows are of.
  """
  number = tf.shape(graphs)[0]
  dtype = tf.as_dtype(array.dtype)

  def add(file: tf.Tensor, files: tf.TensorArray) -> Any:
    (rows,) = tf.raw_ops.DatasetToSingleElement(
      dataset=tf.raw_ops.DatasetFromGraph(graph_def=graphs[file]),
      output_types=[dtype],
      output_shapes=[array.shape],
    )
    return file + 1, files.write(file, rows)

  files = tf.TensorArray(
    dtype, number, infer_shape=False, clear_after_read=False
  )
  return tf.while_loop(
    lambda file, _: file < number, add, (tf.constant(0), files)
  )[1]


def rows(
  files: tf.TensorArray,
  file: tf.Tensor,
  first_row: tf.Tensor,
  num_rows: tf.Tensor,
  array: tff.TensorType,
) -> tf.Tensor:
  """Returns some rows of a file.

  TensorFlow copies nothing where rows are multiples of 64 bytes.

  Args:
    files: The files, as `mapped` returns them.
    file: int64[], the number of the file.
    first_row: int64[].
    num_rows: int64[].
    array: The type of the result.
  """
  row = array.shape[1:]
  found = tf.slice(
    files.read(tf.cast(file, tf.int32)),
    tf.stack([first_row, *([0] * len(row))]),
    tf.stack([num_rows, *row]),
  )
  found.set_shape(array.shape)
  return found


def tell_that_client_begins() -> tf.Operation:
  """Returns an operation that writes a sign of a client into the log."""
  return tf.raw_ops.PrintV2(
    input=worker_log.SIGN_OF_CLIENT, output_stream="stderr", end="\n"
  )
