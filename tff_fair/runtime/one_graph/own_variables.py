"""Variables of a graph that is part of another graph, anew each time it runs.

TFF runs the graph of a client in a session for it alone: first what initializes
its variables, then the rest. In a loop over clients, all would share them. Here
each run of the graph makes variables without a name, which no other run can
find, and drops them in the end.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tff_fair.runtime import admission

# TensorFlow's name for those without one, `ResourceHandle::ANONYMOUS_NAME`.
_ANONYMOUS = b"cd2c89b7-88b7-44c8-ad83-06c2a9158347"
_RESOURCE = tf.resource.as_datatype_enum


def handles(graph_def: Any) -> list[str]:
  """Returns the names of the nodes that make variables."""
  return [node.name for node in graph_def.node if node.op == admission.VARIABLE]


def with_own(graph_def: Any, initializer: str) -> Any:
  """Returns a graph whose variables are its own and ready before all else.

  Args:
    graph_def: The graph.
    initializer: The name of the operation that initializes all variables.
  """
  changed = type(graph_def)()
  changed.CopyFrom(graph_def)
  before = _ancestors(graph_def, initializer)
  made = set(handles(graph_def))
  passed_on = {
    node.name
    for node in graph_def.node
    if node.name in before and _passes_on(node)
  }
  for node in changed.node:
    if node.name in made:
      node.attr["shared_name"].s = _ANONYMOUS
    elif node.name not in before:
      for place, name in enumerate(node.input):
        if name.removesuffix(":0") in made | passed_on:
          node.input[place] = _ready(name.removesuffix(":0"))
  for name in sorted(made | passed_on):
    ready = changed.node.add(name=_ready(name), op="Identity")
    ready.input.extend([name, f"^{initializer}"])
    ready.attr["T"].type = _RESOURCE
  return changed


def _passes_on(node: Any) -> bool:
  """Returns whether a node returns the variable that it takes."""
  return "T" in node.attr and node.attr["T"].type == _RESOURCE


def _ready(name: str) -> str:
  return f"{name}/ready"


def _ancestors(graph_def: Any, name: str) -> set[str]:
  """Returns the names of a node and of all that come before it."""
  inputs = {node.name: [*map(_node, node.input)] for node in graph_def.node}
  found: set[str] = set()
  remaining = [name]
  while remaining:
    node = remaining.pop()
    if node not in found:
      found.add(node)
      remaining += inputs[node]
  return found


def _node(name: str) -> str:
  """Returns the node of an input."""
  return name.removeprefix("^").split(":")[0]
