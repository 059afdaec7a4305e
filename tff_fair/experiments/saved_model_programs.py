"""What the program in a SavedModel does beside computing: files, code, network.

Loading a SavedModel may run a part of its program, and calling it the rest.
"""

import pathlib
import re
from collections.abc import Iterator
from typing import Any

# TensorFlow's operations that reach files, Python code, devices or other hosts,
# by what their names say.
_OUTWARD = re.compile(
  "File|Save|Restore|Checkpoint|Dataset|Iterator|Reader|Py[Ff]unc|Summary|"
  "Print|Debug|Rpc|Sql|Snapshot|Send|Recv|Collective|Remote|Host|Compile|T[Pp]"
  "[Uu]|Service|L[Mm][Dd][Bb]|Bigtable|Load|Record|Client|Server|Socket|Nccl|"
  "Dump|Worker|FixedUnigram|ImportEvent|Delete"
)
# The part that saves and restores variables, which loading does not run.
_SAVER = re.compile("__inference__traced_(save|restore)_[0-9]+")
_OF_SAVER = {"SaveV2", "MergeV2Checkpoints", "ShardedFilename", "RestoreV2"}


def outward_operations(folder: pathlib.Path) -> list[str]:
  """Returns the operations of a SavedModel that reach out of it, sorted.

  Args:
    folder: The folder of the SavedModel.

  Raises:
    ValueError: If it cannot be read.
  """
  # Imported late: it imports TensorFlow.
  from google.protobuf import message  # noqa: PLC0415
  from tensorflow.core.protobuf import saved_model_pb2  # noqa: PLC0415

  content = saved_model_pb2.SavedModel()
  try:
    content.ParseFromString((folder / "saved_model.pb").read_bytes())
  except (OSError, message.DecodeError) as error:
    raise ValueError(f"its saved_model.pb cannot be read: {error}") from error
  return sorted(
    {name for graph in content.meta_graphs for name in _outward(graph)}
  )


def _outward(graph: Any) -> Iterator[str]:
  """Yields the outward operations of a graph with its library."""
  functions = graph.graph_def.library.function
  called = {
    name
    for function in functions
    for node in function.node_def
    for name in _called(node)
  }
  called.update(graph.object_graph_def.concrete_functions)
  is_of_objects = graph.HasField("object_graph_def")
  for node in graph.graph_def.node:
    if _OUTWARD.search(node.op) and not _SAVER.fullmatch(node.op):
      yield node.op
  for function in functions:
    name = function.signature.name
    saves = is_of_objects and _SAVER.fullmatch(name) and name not in called
    for node in function.node_def:
      if _OUTWARD.search(node.op) and not (saves and node.op in _OF_SAVER):
        yield node.op


def _called(node: Any) -> Iterator[str]:
  """Yields the names of the functions that a node of a graph may call."""
  yield node.op
  for value in node.attr.values():
    yield value.func.name
    for function in value.list.func:
      yield function.name
