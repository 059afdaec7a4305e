"""Builds once what several processes of a test have in common.

Clients work alike under most rules, and TensorFlow optimizes the graphs of that
work each time that a process is compiled: a third of the time of a new process.
"""

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import tensorflow_federated as tff

# TensorFlow Federated calls it by this name; there is no public one.
from tensorflow.python.grappler import tf_optimizer

from tests import small_problem
from tff_fair.client_works import training
from tff_fair.kernels import stacking


@contextlib.contextmanager
def types_read_once() -> Iterator[None]:
  """Has each type be read from its message once.

  A computation names its types again and again, and TFF reads them each time:
  half of the time of compiling, but for the optimizer.
  """
  read = tff.types.deserialize_type
  types: dict[bytes, tff.Type] = {}

  def deserialize_type(message: Any) -> tff.Type:
    key = message.SerializeToString(deterministic=True)
    if key not in types:
      types[key] = read(message)
    return types[key]

  # It calls itself by its name there, and so do others.
  module = sys.modules[read.__module__]
  with mock.patch.object(module, "deserialize_type", deserialize_type):
    yield


@contextlib.contextmanager
def small_stacks() -> Iterator[None]:
  """Has the server collect updates in stacks of few slots.

  A stacked sum has a quarter of its operations for the slots of a stack, and
  few rows pass all its levels.
  """
  with mock.patch.object(
    stacking, "_SIZES", dict.fromkeys([False, True], (2, 2))
  ):
    yield


_optimizes = False  # Within `optimized`.


@contextlib.contextmanager
def unoptimized() -> Iterator[None]:
  """Has computations compiled to the graphs that were traced."""
  optimize = tf_optimizer.OptimizeGraph

  def leave(config: Any, graph: Any) -> Any:
    return optimize(config, graph) if _optimizes else graph.graph_def

  with mock.patch.object(tf_optimizer, "OptimizeGraph", leave):
    yield


@contextlib.contextmanager
def optimized() -> Iterator[None]:
  """Has computations compiled within as they are for users, after all."""
  with mock.patch.object(sys.modules[__name__], "_optimizes", True):
    yield


# Clients do the same work for all others.
_COSTLY_SIGNALS = frozenset(["gradient_norm", "initial_loss"])


@contextlib.contextmanager
def built_once() -> Iterator[None]:
  """Has equal clients' work built once, and equal graphs optimized once.

  Also models and optimizers of the small problem, of which work is made. The
  same arguments give the same work, and the same graph the same optimized one,
  bit for bit: so tests meet what they would meet without this.
  """
  build, optimize = training.Training.build, tf_optimizer.OptimizeGraph
  works: dict[Any, Any] = {}
  graphs: dict[Any, bytes] = {}

  def build_training(work: training.Training) -> Any:
    # The models and the optimizer are in the key, so that they live as long.
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
