"""Finds operations of a SavedModel that reach files, code or the network."""

import pathlib
import re
from collections.abc import Iterator
from typing import Any

# Matches names of TensorFlow's operations that reach files, Python code, other
# programs or hosts. IteratorGetNext only reads data that other operations open.
OUTWARD = re.compile(
  "Abort|Bigtable|CallModule|Checkpoint|Client|Collective|Compile|CustomCall|"
  "Dataset|Debug|Delete|Dump|File|FixedUnigram|Host|ImmutableConst|ImportEvent|"
  "Iterator(?!GetNext$)|L[Mm][Dd][Bb]|Load|Nccl|Print|Py[Ff]unc|Reader|Record|"
  "Recv|Remote|Restore|Rpc|Save|Send|Server|Service|Skipgram|Snapshot|Socket|"
  "Sql|Summary|TRT|T[Pp][Uu]|VocabRemapping|Worker|codeProto"
)
# Names of functions that save and restore variables; loading does not run them.
_SAVER = re.compile("__inference__traced_(save|restore)_[0-9]+")
_SAVER_OPERATIONS = {
  "SaveV2",
  "MergeV2Checkpoints",
  "ShardedFilename",
  "RestoreV2",
}


def outward_operations(folder: pathlib.Path) -> list[str]:
  """Returns the sorted names of a SavedModel's `OUTWARD` operations."""
  # Imported here, as it imports TensorFlow.
  from google.protobuf import message  # noqa: PLC0415
  from tensorflow.core.protobuf import saved_model_pb2  # noqa: PLC0415

  content = saved_model_pb2.SavedModel()
  try:
    content.ParseFromString((folder / "saved_model.pb").read_bytes())
  except (OSError, message.DecodeError) as error:
    raise ValueError(f"its saved_model.pb cannot be read: {error}") from error
  graphs = content.meta_graphs
  # If a folder has several graphs, TensorFlow may run all their functions.
  has_objects = len(graphs) == 1 and graphs[0].HasField("object_graph_def")
  return sorted(
    {name for graph in graphs for name in _outward(graph, has_objects)}
  )


def _outward(graph: Any, has_objects: bool) -> Iterator[str]:
  library = graph.graph_def.library
  savers = _savers(graph) if has_objects else set()
  for node in graph.graph_def.node:
    if OUTWARD.search(node.op):
      yield node.op
  for function in library.function:
    is_saver = function.signature.name in savers
    for node in function.node_def:
      if OUTWARD.search(node.op) and not (
        is_saver and node.op in _SAVER_OPERATIONS
      ):
        yield node.op


def _savers(graph: Any) -> set[str]:
  """Returns the names of save and restore functions that nothing else uses."""
  library = graph.graph_def.library
  others, savers = [graph.object_graph_def, *library.gradient], set()
  for function in library.function:
    if _SAVER.fullmatch(function.signature.name):
      savers.add(function.signature.name)
    else:
      others.append(function)
  content = b"".join(other.SerializeToString() for other in others)
  return {name for name in savers if name.encode() not in content}
