"""Values of clients on their way to a graph, which takes those of all clients.

They have two forms. As `Columns`, each dataset and each tensor is a variant.
Where the rows of all clients are in files, places alone are given, and the
graph maps each file once.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import (
  admission,
  client_count,
  example_files,
  private_tff,
  values,
)
from tff_fair.runtime.one_graph import inlining

# From the number of a client to its value, in a graph.
OfClient: TypeAlias = Callable[[tf.Tensor], inlining.Value]

# Of `tf.data.experimental.ExternalStatePolicy`.
_FAIL = 2


class Columns:
  """A variant for each dataset and tensor of each client's value."""

  name = "columns"

  def __init__(self, member: tff.Type) -> None:
    """Takes the type of each client's value."""
    self._types = inlining.leaf_types(member)
    self._member = member

  @property
  def signature(self) -> list[tf.TensorSpec]:
    """The specs of what is given of all clients."""
    return [tf.TensorSpec([None], tf.variant)] * len(self._types)

  def given(self, clients: Sequence[Any]) -> list[tf.Tensor]:
    """Returns what is given of all clients: the columns."""
    rows = [inlining.leaves(value, self._member) for value in clients]
    return [
      _stacked([_variant(row[place]) for row in rows])
      for place in range(len(self._types))
    ]

  def can_repeat(self, clients: Sequence[Any]) -> bool:
    """Returns whether datasets give the same each time they are read."""
    places = [
      place
      for place, leaf in enumerate(self._types)
      if isinstance(leaf, tff.SequenceType)
    ]
    return not places or all(
      _can_repeat(inlining.leaves(value, self._member)[place])
      for value in clients
      for place in places
    )

  def read(self, given: Sequence[tf.Tensor]) -> OfClient:
    """Reads what was given, in a graph: where its client works."""

    def of_client(client: tf.Tensor) -> inlining.Value:
      with tf.control_dependencies([client_count.add_one()]):
        client = tf.identity(client)
      leaves = [
        _from_variant(tf.gather(column, client), leaf)
        for column, leaf in zip(given, self._types, strict=True)
      ]
      return inlining.packed(leaves, self._member)

    return of_client


def _stacked(variants: Sequence[tf.Tensor]) -> tf.Tensor:
  return tf.stack(variants) if variants else _no_variants()


@functools.cache
def _no_variants() -> tf.Tensor:
  return tf.stack([tf.raw_ops.OptionalNone()])[:0]


def _variant(leaf: Any) -> tf.Tensor:
  if isinstance(leaf, (example_files.KnownGraph, values.SerializedData)):
    return tf.raw_ops.DatasetFromGraph(graph_def=values.serialized(leaf))
  if isinstance(leaf, tf.data.Dataset):
    return tf.data.experimental.to_variant(leaf)
  return tf.raw_ops.OptionalFromValue(components=[leaf])


def _from_variant(variant: tf.Tensor, leaf: tff.Type) -> tf.Tensor:
  if isinstance(leaf, tff.SequenceType):
    return variant
  (tensor,) = tf.raw_ops.OptionalGetValue(
    optional=variant,
    output_types=[inlining.dtype_of(leaf)],
    output_shapes=[leaf.shape],
  )
  return tensor


# By dataset: a cohort may come again.
_repeatable: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def _can_repeat(data: Any) -> bool:
  if isinstance(data, values.SerializedData):
    return admission.may_keep(data.graph)
  if private_tff.has_only_tensors(data):
    return True
  if data not in _repeatable:
    _repeatable[data] = _is_admitted(data)
  return _repeatable[data]


def _is_admitted(data: Any) -> bool:
  if isinstance(data, example_files.KnownGraph):
    return admission.may_keep(data.serialized_graph)
  # TensorFlow refuses to serialize what depends on variables and tables.
  variant = tf.data.experimental.to_variant(data)
  try:
    graph = tf.raw_ops.DatasetToGraphV2(
      input_dataset=variant, external_state_policy=_FAIL
    )
  except tf.errors.OpError:
    return False
  return admission.may_keep(graph.numpy())


class FileForm:
  """Numbers that say where a client's rows are, and the files."""

  name = "files"

  def __init__(self, member: tff.Type) -> None:
    """Takes the type of each client's value."""
    self._member = member

  @property
  def _arrays(self) -> Sequence[tff.TensorType]:
    """The types of the arrays; a client's id comes before them."""
    return inlining.leaf_types(self._member.element)[1:]

  @property
  def signature(self) -> list[tf.TensorSpec]:
    """The specs of what is given: numbers of clients, and files of arrays."""
    return [
      tf.TensorSpec([None, 2 + 2 * len(self._arrays)], tf.int64),
      *[tf.TensorSpec([None], tf.string)] * len(self._arrays),
    ]

  @staticmethod
  def takes(clients: Sequence[Any]) -> bool:
    """Returns whether all clients say where their rows are."""
    return len(clients) > 0 and all(
      isinstance(value, example_files.ClientInFiles) for value in clients
    )

  def can_repeat(self, clients: Sequence[Any]) -> bool:
    """Returns whether datasets give the same each time they are read."""
    del clients
    return True

  def given(self, clients: Sequence[Any]) -> list[tf.Tensor]:
    """Returns what is given: the numbers, and graphs of each array's files."""
    rows = [client.rows_in_files for client in clients]
    columns = [[c.client_id for c in rows], [c.num_rows for c in rows]]
    graphs = []
    for index, array in enumerate(self._arrays):
      ends: dict[str, int] = {}  # By path.
      for client in rows:
        path, first_row = client.places[index]
        ends[path] = max(ends.get(path, 0), first_row + client.num_rows)
      numbers = {path: number for number, path in enumerate(ends)}
      columns += [
        [numbers[client.places[index].path] for client in rows],
        [client.places[index].first_row for client in rows],
      ]
      graphs.append([graph_of_file(p, end, array) for p, end in ends.items()])
    return [
      tf.constant(np.array(columns, np.int64).T),
      *(tf.constant(of_array) for of_array in graphs),
    ]

  def read(self, given: Sequence[tf.Tensor]) -> OfClient:
    """Reads what was given, in a graph: maps the files before any loop."""
    numbers, *graphs = given
    files = [*map(_mapped, graphs, self._arrays)]

    def of_client(client: tf.Tensor) -> inlining.Value:
      with tf.control_dependencies([client_count.add_one()]):
        client_id, num_rows, *places = tf.unstack(numbers[client])
      rows = [
        _rows(of_array, file, first_row, num_rows, array)
        for of_array, file, first_row, array in zip(
          files, places[::2], places[1::2], self._arrays, strict=True
        )
      ]
      return tf.raw_ops.TensorDataset(
        components=[client_id, *rows],
        output_shapes=[[], *(array.shape for array in self._arrays)],
      )

    return of_client


Form: TypeAlias = Columns | FileForm


def form_of(clients: Sequence[Any], member: tff.Type) -> Form:
  """Returns the form in which clients' values are given to a graph.

  Args:
    clients: Their values, as `values.ingested` returns them.
    member: The type of each.
  """
  if isinstance(member, tff.SequenceType) and FileForm.takes(clients):
    return FileForm(member)
  return Columns(member)


def graph_of_file(path: str, num_rows: int, array: tff.TensorType) -> bytes:
  """Returns the graph of a dataset with one element, all rows of a file.

  TensorFlow maps a file by an operation that has the path as an attribute. So a
  file is sent as a graph.

  Args:
    path: The file, as the worker finds it.
    num_rows: How many of its rows are needed; it may have more.
    array: The type of what the rows are of.
  """
  graph_def = type(template := _template_of_file(array))()
  graph_def.CopyFrom(template)
  (file,) = (node for node in graph_def.node if node.op == "ImmutableConst")
  file.attr["memory_region_name"].s = path.encode()
  file.attr["shape"].shape.dim[0].size = num_rows
  return bytes(graph_def.SerializeToString())


@functools.cache
def _template_of_file(array: tff.TensorType) -> Any:
  """Returns the graph, with path and number of rows to be filled in."""
  dtype = tf.as_dtype(array.dtype)
  with tf.Graph().as_default():
    rows = tf.raw_ops.ImmutableConst(
      dtype=dtype, shape=[0, *array.shape[1:]], memory_region_name=""
    )
    dataset = tf.raw_ops.TensorDataset(
      components=[rows],
      output_shapes=[array.shape],
    )
  return example_files.graph_of(dataset)


def _mapped(graphs: tf.Tensor, array: tff.TensorType) -> tf.TensorArray:
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


def _rows(
  files: tf.TensorArray,
  file: tf.Tensor,
  first_row: tf.Tensor,
  num_rows: tf.Tensor,
  array: tff.TensorType,
) -> tf.Tensor:
  """Returns some rows of a file.

  TensorFlow copies nothing where rows are multiples of 64 bytes.

  Args:
    files: The files, as `_mapped` returns them.
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
