"""Makes processes quick to build; their equal parts are built only once.

Clients do the same work under most rules, and TensorFlow optimizes the graphs
of that work each time a process is compiled, which takes a third of the time of
a new process.
"""

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import tensorflow_federated as tff

# TensorFlow Federated calls the optimizer by this name, which is not public.
from tensorflow.python.grappler import tf_optimizer

from tests import small_problem
from tff_fair.client_works import training
from tff_fair.kernels import stacking


@contextlib.contextmanager
def types_read_once() -> Iterator[None]:
  """Caches the types that TFF reads from messages.

  A computation contains its types many times, and TFF reads them each time,
  which takes half of the time of compiling without the optimizer.
  """
  read = tff.types.deserialize_type
  types: dict[bytes, tff.Type] = {}

  def deserialize_type(message: Any) -> tff.Type:
    key = message.SerializeToString(deterministic=True)
    if key not in types:
      types[key] = read(message)
    return types[key]

  # All of TFF looks the function up under this name in its module.
  module = sys.modules[read.__module__]
  with mock.patch.object(module, "deserialize_type", deserialize_type):
    yield


@contextlib.contextmanager
def small_stacks() -> Iterator[None]:
  """Makes the server collect updates in stacks of few slots.

  A quarter of the operations of a stacked sum are for the slots of a stack.
  With few slots, few rows already reach all levels of the stack.
  """
  with mock.patch.object(
    stacking, "_SIZES", dict.fromkeys([False, True], (2, 2))
  ):
    yield


_optimizes = False  # True within `optimized`.


@contextlib.contextmanager
def unoptimized() -> Iterator[None]:
  """Compiles computations without TensorFlow's graph optimizer."""
  optimize = tf_optimizer.OptimizeGraph

  def leave(config: Any, graph: Any) -> Any:
    return optimize(config, graph) if _optimizes else graph.graph_def

  with mock.patch.object(tf_optimizer, "OptimizeGraph", leave):
    yield


@contextlib.contextmanager
def optimized() -> Iterator[None]:
  """Compiles computations as for users, inside a block of `unoptimized`."""
  with mock.patch.object(sys.modules[__name__], "_optimizes", True):
    yield


# Clients' work depends on these signals, but on no others.
_COSTLY_SIGNALS = frozenset(["gradient_norm", "initial_loss"])


@contextlib.contextmanager
def built_once() -> Iterator[None]:
  """Builds equal clients' work once, and optimizes equal graphs once.

  The models and optimizers of the small problem, from which work is built, are
  also shared. Equal arguments give equal work, and equal graphs give equal
  optimized graphs, bit for bit, so tests see no difference.
  """
  build, optimize = training.Training.build, tf_optimizer.OptimizeGraph
  works: dict[Any, Any] = {}
  graphs: dict[Any, bytes] = {}

  def build_training(work: training.Training) -> Any:
    # The key keeps the model and the optimizer alive.
    asked = _COSTLY_SIGNALS.intersection(work.signals)
    key = work.model_fn, work.optimizer, work.settings, asked, work.securely
    if key not in works:
      works[key] = build(work)
    return works[key]

  def optimize_graph(config: Any, graph: Any) -> Any:
    key = (
      _optimizes,
      config.SerializeToString(deterministic=True),
      graph.SerializeToString(deterministic=True),
    )
    if key not in graphs:
      graphs[key] = optimize(config, graph).SerializeToString()
    return type(graph.graph_def).FromString(graphs[key])

  once = {
    name: functools.cache(getattr(small_problem, name))
    for name in ("functional_model", "optimizer")
  }
  with (
    mock.patch.multiple(small_problem, **once),
    mock.patch.object(training.Training, "build", build_training),
    mock.patch.object(tf_optimizer, "OptimizeGraph", optimize_graph),
  ):
    yield
