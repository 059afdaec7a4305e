"""The only module that uses private parts of TFF and TensorFlow.

Any new version may rename or drop these parts. Then programs may take more time
or memory, or fail to end workers, but do not compute wrong values.
"""

from __future__ import annotations

import contextlib
import subprocess
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeVar

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission

try:
  from tensorflow.python.eager import context as eager_context
except ImportError:
  eager_context = None
try:
  from tensorflow_federated.python.core.environments.tensorflow_backend import (
    graph_optimizations,
  )
except ImportError:
  graph_optimizations = None
try:
  from tensorflow_federated.python.core.impl.executor_stacks import (
    executor_factory,
  )
except ImportError:
  executor_factory = None

__all__ = [
  "cached_on",
  "end_workers_with_program",
  "has_only_tensors",
  "install_graph_optimizer",
  "options_of_calls",
]

T = TypeVar("T")

# The attribute that `cached_on` adds to a computation.
_CACHE_ATTRIBUTE = "kept_by_tff_fair"
# Classes of TensorFlow's datasets without functions, files or state.
_STATELESS_DATASETS = frozenset(
  f"_{name}Dataset"
  for name in (
    *("Batch", "Concatenate", "PaddedBatch", "Prefetch", "Range", "Repeat"),
    *("Skip", "Take", "Tensor", "TensorSlice", "Zip"),
  )
)


def cached_on(
  comp: tff.Computation, key: Hashable, build: Callable[[], T]
) -> T:
  """Returns `build()`, which is called once per computation and key.

  The value is stored in the computation. In a dictionary with computations as
  keys, each look-up would be slow, since TFF hashes a computation's content.
  """
  kept: dict[Hashable, T] = vars(comp).setdefault(_CACHE_ATTRIBUTE, {})
  if key not in kept:
    kept[key] = build()
  return kept[key]


def has_only_tensors(data: object) -> bool:
  """Returns whether a dataset is stateless: all reads give equal elements."""
  return (
    isinstance(data, tf.data.Dataset)
    and type(data).__name__ in _STATELESS_DATASETS
    and type(data).__module__.startswith("tensorflow.")
    and all(map(has_only_tensors, data._inputs()))
  )


class _GraphOptimizer:
  """TensorFlow's graph optimizer, made faster by `install_graph_optimizer`."""

  def __init__(self, optimizer: Any) -> None:
    self._optimizer = optimizer

  def __getattr__(self, name: str) -> Any:
    return getattr(self._optimizer, name)

  def OptimizeGraph(self, config: Any, graph: Any, *args: Any) -> Any:  # noqa: N802
    used: set[str] = set()
    for signature in graph.signature_def.values():
      inputs, outputs = signature.inputs.values(), signature.outputs.values()
      used.update(
        admission.node_of(tensor.name) for tensor in (*inputs, *outputs)
      )
      for tensor in inputs:
        tensor.tensor_shape.Clear()
    nodes = graph.graph_def.node
    for node in nodes:
      used.update(map(admission.node_of, node.input))
    for i in reversed(range(len(nodes))):
      # Keeps placeholders of strings: one may be the session's token, which TFF
      # refers to by name outside of the graph.
      if (
        nodes[i].op == "Placeholder"
        and nodes[i].name not in used
        and nodes[i].attr["dtype"].type != tf.string.as_datatype_enum
      ):
        del nodes[i]
    options = tf.compat.v1.ConfigProto.FromString(config.SerializeToString())
    rewrites = options.graph_options.rewrite_options
    rewrites.memory_optimization = rewrites.NO_MEM_OPT
    return self._optimizer.OptimizeGraph(options, graph, *args)


def install_graph_optimizer() -> None:
  """Keeps the graph optimizer from filling inputs and recomputing activations.

  TFF's optimizer fills a tensor for each input in a graph's signature, though
  it uses only the input's name. It also fills one for each placeholder that no
  node reads; TFF leaves these if it inserts one graph into another. A graph for
  stacked updates of a 4 MB model had 73 inputs of one row each and 1,003 such
  placeholders. Filling them took 3.4 GB, and more than doubled the time. The
  nodes of a graph determine its shapes, so the optimized graph is the same.

  To save memory, the optimizer also recomputes activations for the gradients of
  large models, and adds terms into temporary variables, which need a fixed
  order. VGG-11 then took 1.6 times as long, since its clients could not be
  computed in one graph.

  If TFF has renamed its module, this function has no effect.
  """
  optimizer = getattr(graph_optimizations, "tf_optimizer", None)
  if hasattr(optimizer, "OptimizeGraph") and not isinstance(
    optimizer, _GraphOptimizer
  ):
    graph_optimizations.tf_optimizer = _GraphOptimizer(optimizer)


# This shell becomes a worker. A second shell ends the worker when the pipe from
# this program closes, unless another process has the worker's id by then.
_WATCHDOG_SCRIPT = """exec 3<&0 </dev/null
(
  trap "" HUP INT TERM
  read -r _ <&3
  grep -q worker_binary "/proc/$$/cmdline" && kill -KILL $$
) >/dev/null 2>&1 &
exec "$@" 3<&-
"""


class _WatchedWorker(subprocess.Popen):
  """A TFF worker process that does not outlive this program."""

  def __init__(self, args: Sequence[str], **options: Any) -> None:
    command = ["/bin/sh", "-c", _WATCHDOG_SCRIPT, "sh", *args]
    super().__init__(command, stdin=subprocess.PIPE, **options)

  def wait(self, timeout: float | None = None) -> int:
    """Waits for the worker, then ends the second shell; returns the status."""
    status = super().wait(timeout)
    if self.stdin is not None:
      self.stdin.close()
    return status


def end_workers_with_program() -> None:
  """Makes TFF's workers end when this program ends, even if it is killed.

  TFF ends its worker when Python drops the context, which fails at program
  exit: the worker survives and holds the output open, so that `program | tee
  log` never returns. TFF may also replace a lost worker at any time. If TFF has
  renamed the module, its workers may survive.
  """
  if hasattr(executor_factory, "subprocess"):
    executor_factory.subprocess = types.SimpleNamespace(Popen=_WatchedWorker)


@contextlib.contextmanager
def options_of_calls(config: tf.compat.v1.ConfigProto) -> Iterator[None]:
  """Sets `config` for the graphs that this thread first calls in the block.

  By default, TensorFlow would optimize the graphs again, which takes time, and
  fails for some loops within branches.
  """
  if not hasattr(eager_context, "FunctionCallOptions"):
    yield
    return
  context = eager_context.context()
  former = context.function_call_options
  context.function_call_options = eager_context.FunctionCallOptions(
    executor_type=former.executor_type, config_proto=config
  )
  try:
    yield
  finally:
    context.function_call_options = former
