"""Values of clients on their way to a graph, which takes those of all clients.

They have two forms. As `TextForm`, a client's data is the graph of its dataset,
and a tensor its message. Where the rows of all clients are in files, places
alone travel, and the graph maps each file once: to make a dataset of its own
graph takes a client as long as a forward pass of a small model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import (
  admission,
  example_files,
  shared_tensors,
  worker_log,
)
from tff_fair.runtime.one_graph import inlining

# From the number of a client to its value, in a graph.
OfClient: TypeAlias = Callable[[tf.Tensor], inlining.Value]

_TEXTS = tff.TensorType(np.str_, [None])


class TextForm:
  """A text for each dataset and tensor of a value."""

  name = "texts"

  def __init__(self, member: tff.Type) -> None:
    """Takes the type of each client's value."""
    self._member = member

  @property
  def sent_type(self) -> tff.StructType:
    """The type of what is sent: a column for each dataset and tensor."""
    return tff.StructType([_TEXTS] * len(inlining.leaf_types(self._member)))

  def can_send(self, values: Sequence[Any]) -> bool:
    """Returns whether all are datasets, arrays, and structures of such.

    Args:
      values: One for each client, as TFF's contexts take them.
    """
    specs: list[Any] = []  # Clients mostly have data of one spec.
    return len(self.sent_type) > 0 and all(
      _is_of(value, self._member, specs) for value in values
    )

  def sent(self, values: Sequence[Any]) -> Sequence[Sequence[bytes]]:
    """Returns what is sent: the columns."""
    rows = [
      [*map(_text, shared_tensors.leaves(value, self._member))]
      for value in values
    ]
    columns = [*zip(*rows, strict=True)]
    return columns or [()] * len(self.sent_type)

  @property
  def makes_datasets(self) -> bool:
    """Whether a value has datasets, whose graphs may be any."""
    return any(
      isinstance(leaf, tff.SequenceType)
      for leaf in inlining.leaf_types(self._member)
    )

  def read(self, sent: inlining.Value) -> OfClient:
    """Reads what was sent, in a graph: each text where its client works."""
    types = inlining.leaf_types(self._member)

    def of_client(client: tf.Tensor) -> inlining.Value:
      texts = [column[client] for column in sent]
      return inlining.packed(map(_from_text, texts, types), self._member)

    return of_client


class FileForm:
  """Numbers that say where a client's rows are, and the files."""

  name = "files"
  # Of graphs that may be any.
  makes_datasets = False

  def __init__(self, member: tff.Type) -> None:
    """Takes the type of each client's value."""
    self._member = member

  @property
  def _arrays(self) -> Sequence[tff.TensorType]:
    """The types of the arrays; a client's id comes before them."""
    return inlining.leaf_types(self._member.element)[1:]

  @property
  def sent_type(self) -> tff.StructType:
    """The type of what is sent: numbers of clients, and files of each array."""
    numbers = tff.TensorType(np.int64, [None, 2 + 2 * len(self._arrays)])
    return tff.StructType([numbers, *[_TEXTS] * len(self._arrays)])

  def can_send(self, values: Sequence[Any]) -> bool:
    """Returns whether all are datasets that say where their rows are."""
    return (
      isinstance(self._member, tff.SequenceType)
      and len(values) > 0
      and all(
        isinstance(value, example_files.ClientInFiles)
        and self._member.element.is_assignable_from(value.element_type)
        for value in values
      )
    )

  def sent(self, values: Sequence[Any]) -> Sequence[Any]:
    """Returns what is sent: the numbers, and graphs of each array's files."""
    clients = [value.rows_in_files for value in values]
    columns = [[c.client_id for c in clients], [c.num_rows for c in clients]]
    graphs = []
    for index, array in enumerate(self._arrays):
      ends: dict[str, int] = {}  # By path.
      for client in clients:
        path, first_row = client.places[index]
        ends[path] = max(ends.get(path, 0), first_row + client.num_rows)
      numbers = {path: number for number, path in enumerate(ends)}
      columns += [
        [numbers[client.places[index].path] for client in clients],
        [client.places[index].first_row for client in clients],
      ]
      graphs.append([graph_of_file(p, end, array) for p, end in ends.items()])
    return [np.array(columns, np.int64).T, *graphs]

  def read(self, sent: inlining.Value) -> OfClient:
    """Reads what was sent, in a graph: maps the files before any loop."""
    numbers, *graphs = sent
    files = [*map(_mapped, graphs, self._arrays)]

    def of_client(client: tf.Tensor) -> inlining.Value:
      with tf.control_dependencies([_tell_that_client_begins()]):
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


Form: TypeAlias = TextForm | FileForm


class ClientValues(NamedTuple):
  """The values of some clients, which are converted when they are sent.

  Attributes:
    values: One for each client.
    form: Their form.
  """

  values: Sequence[Any]
  form: Form

  def sent(self) -> Sequence[Any]:
    """Returns what is sent."""
    return self.form.sent(self.values)


def of(values: Any, member: tff.Type) -> ClientValues | None:
  """Returns values in the form in which they are sent; `None` if in none.

  Args:
    values: Those of the clients, as TFF's contexts take them.
    member: The type of each.
  """
  if not isinstance(values, (list, tuple)):
    return None
  forms: Sequence[Form] = FileForm(member), TextForm(member)
  form = next((form for form in forms if form.can_send(values)), None)
  return None if form is None else ClientValues(values, form)


def _is_of(value: Any, type_spec: tff.Type, specs: list[Any]) -> bool:
  """Returns whether a value has a type; `specs` are known to be of it."""
  if isinstance(type_spec, tff.StructType):
    try:
      members = tff.structure.from_container(value)
    except TypeError:
      return False
    return len(members) == len(type_spec) and all(
      _is_of(member, part, specs)
      for member, part in zip(members, type_spec, strict=True)
    )
  if isinstance(type_spec, tff.TensorType):
    return admission.is_plain_array(value, type_spec)
  if not isinstance(value, tf.data.Dataset):
    return False
  if value.element_spec not in specs:
    found = tff.types.tensorflow_to_type(value.element_spec)
    if not type_spec.element.is_assignable_from(found):
      return False
    specs.append(value.element_spec)
  return True


def _text(leaf: Any) -> bytes:
  if isinstance(leaf, np.ndarray):
    return bytes(tf.make_tensor_proto(leaf).SerializeToString())
  if isinstance(leaf, example_files.KnownGraph):
    return leaf.serialized_graph
  variant = tf.data.experimental.to_variant(leaf)
  # As TFF does.
  return bytes(tf.raw_ops.DatasetToGraphV2(input_dataset=variant).numpy())


def _from_text(text: tf.Tensor, type_spec: tff.Type) -> tf.Tensor:
  if isinstance(type_spec, tff.SequenceType):
    return tf.raw_ops.DatasetFromGraph(graph_def=text)
  tensor = tf.io.parse_tensor(text, type_spec.dtype)
  return tf.ensure_shape(tensor, type_spec.shape)


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
      name=worker_log.NO_SIGN_OF_CLIENT,
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


def _tell_that_client_begins() -> tf.Operation:
  """Returns an operation that writes a sign of a client into the log."""
  return tf.raw_ops.PrintV2(
    input=worker_log.SIGN_OF_CLIENT, output_stream="stderr", end="\n"
  )
