"""Tests of the runtime on a TFF whose private names have changed."""

import importlib.util
import logging
import sys
import types
import warnings
from typing import Any

import absl.logging
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import runtime
from tff_fair.runtime import native, private_tff, resident_values, worker_calls

NUMBERS = tff.FederatedType(tff.TensorType(np.float32, [2]), tff.CLIENTS)


@pytest.fixture
def executor_types(monkeypatch):
  """The types of all executors and stubs that come into being."""
  found = []
  initialize = tff.framework.RemoteExecutor.__init__

  def remember(self, stub, *args, **kwargs):
    initialize(self, stub, *args, **kwargs)
    if stub is not None:  # That of the check has none.
      found.append((type(self), type(stub)))

  monkeypatch.setattr(tff.framework.RemoteExecutor, "__init__", remember)
  return found


@tff.tensorflow.computation(NUMBERS.member, np.float32)
def scaled(numbers, factor):
  return factor * numbers


@tff.federated_computation(NUMBERS, tff.FederatedType(np.float32, tff.SERVER))
def scaled_sum(numbers, factor):
  factors = tff.federated_broadcast(factor)
  return tff.federated_sum(tff.federated_map(scaled, (numbers, factors)))


def check_rounds():
  for factor in map(np.float32, (1, 2, 3)):
    numbers = [np.float32([1, 2]), np.float32([10, 20]), np.float32([4, 5])]
    found = scaled_sum(numbers, factor)
    np.testing.assert_array_equal(found, factor * np.float32([15, 27]))


# What `private_tff` has in the place of what it has, and what it then misses.
CHANGES = [
  # TFF needs its own names: others are looked for that it does not have.
  (
    "_OF_EXECUTORS",
    (*private_tff._OF_EXECUTORS, "_renamed"),
    "RemoteExecutor._renamed",
  ),
  ("_OF_STUBS", ("dispose", "renamed"), "RemoteExecutorGrpcStub.renamed"),
  (
    "_OF_VALUES",
    (*private_tff._OF_VALUES, "array.shape.renamed"),
    "executor_pb2.Value.array.shape.renamed",
  ),
  ("remote_executor", None, "module remote_executor"),
  ("executor_pb2", None, "module executor_pb2"),
  (
    "remote_executor",
    types.ModuleType("remote_executor"),
    "remote_executor.RemoteValue",
  ),
  ("_OF_TRACING", ("renamed",), "tracing.renamed"),
]


@pytest.mark.parametrize(("place", "value", "name"), CHANGES)
def test_a_missing_name_is_told_in_one_line(place, value, name, monkeypatch):
  assert private_tff.check()
  monkeypatch.setattr(private_tff, place, value)
  with pytest.warns(RuntimeWarning) as caught:
    assert not private_tff.check()
  (warning,) = caught
  message = str(warning.message)
  assert f"has no {name}. " in message
  assert "slower" in message
  assert "\n" not in message


def test_all_missing_names_are_in_the_same_warning(monkeypatch):
  for place, value, _ in CHANGES[:4]:
    monkeypatch.setattr(private_tff, place, value)
  with pytest.warns(RuntimeWarning) as caught:
    private_tff.check()
  (warning,) = caught
  assert all(f"no {n}" in str(warning.message) for _, _, n in CHANGES[:4])


def test_tff_logs_its_calls_for_a_program_that_listens(monkeypatch):
  private_tff.trace_for_listeners()
  logger, lines = logging.getLogger("absl"), []
  monkeypatch.setattr(absl.logging, "debug", lambda *args: lines.append(args))

  def traced():
    lines.clear()
    check_rounds()
    return {f"{line[2]}.{line[3]}" for line in lines if "%s.%s" in line[0]}

  assert not traced()
  monkeypatch.setattr(logger, "isEnabledFor", lambda level: level >= 10)
  assert "RemoteExecutor.create_call" in traced()
  tracing: Any = vars(private_tff)["tracing"]
  before = tracing._global_tracing_providers
  private_tff.trace_for_listeners()
  assert tracing._global_tracing_providers is before


@tff.tensorflow.computation([tff.TensorType(np.float32, [None, 5])] * 3)
def joined(rows):
  folded = tf.constant(2.0) * tf.constant(3.0)
  return tf.concat([*rows], 0)[:2] * folded


# TFF leaves the placeholders of the inner graph.
@tff.tensorflow.computation([tff.TensorType(np.float32, [None, 5])] * 3)
def outer(rows):
  return joined(rows)


def num_unread(graph):
  """Returns how many placeholders of numbers no node of a graph reads."""
  read = {name for node in graph.graph_def.node for name in node.input}
  return sum(
    node.op == "Placeholder"
    and node.name not in read
    and node.attr["dtype"].type == tf.float32.as_datatype_enum
    for node in graph.graph_def.node
  )


def test_the_optimizer_gets_nothing_to_fill_and_makes_the_same_graph(
  monkeypatch,
):
  module: Any = vars(private_tff)["graph_optimizations"]
  optimizer = getattr(module.tf_optimizer, "_optimizer", module.tf_optimizer)
  graphs = []

  class Recorder:
    def OptimizeGraph(self, config, graph):  # noqa: N802
      result = optimizer.OptimizeGraph(config, graph)
      graphs.append((graph, result.SerializeToString(deterministic=True)))
      return result

  monkeypatch.setattr(module, "tf_optimizer", Recorder())
  for computation in (joined, outer):
    tff.backends.native.desugar_and_transform_to_native(computation)
  for computation in (joined, joined, outer):  # Not around itself.
    native.to_native(computation)
  assert isinstance(module.tf_optimizer._optimizer, Recorder)
  shapes = [
    [
      len(tensor.tensor_shape.dim)
      for signature in graph.signature_def.values()
      for tensor in signature.inputs.values()
    ]
    for graph, _ in graphs
  ]
  assert shapes == [[2, 2, 2]] * 2 + [[0, 0, 0]] * 3
  assert len({graphs[i][1] for i in (0, 2, 3)}) == 1
  assert [num_unread(graph) for graph, _ in graphs] == [0, 3, 0, 0, 0]


@pytest.mark.parametrize("module", [None, types.ModuleType("renamed")])
def test_an_optimizer_that_is_gone_is_no_error(module, monkeypatch):
  monkeypatch.setattr(private_tff, "graph_optimizations", module)
  found = native.to_native(joined).type_signature
  assert found.is_equivalent_to(joined.type_signature)


def test_modules_that_are_gone_do_not_stop_the_import(monkeypatch):
  for module in (private_tff.executor_pb2, private_tff.remote_executor):
    monkeypatch.setitem(sys.modules, module.__name__, None)
  spec = importlib.util.spec_from_file_location("copy", private_tff.__file__)
  copy = importlib.util.module_from_spec(spec)
  # `from package import module` finds the attribute of a package, too.
  for module in (private_tff.executor_pb2, private_tff.remote_executor):
    package, _, name = module.__name__.rpartition(".")
    monkeypatch.delattr(sys.modules[package], name)
  spec.loader.exec_module(copy)
  with pytest.warns(RuntimeWarning, match=r"remote_executor.*executor_pb2"):
    assert not copy.check()


@pytest.fixture(scope="module")
def worker():
  with runtime.start_worker() as started:
    yield started


@pytest.fixture(params=["local", "workers"])
def use(request, worker):
  """Starts the runtime, in each of the two ways there are."""
  if request.param == "local":
    return runtime.use_local
  return lambda: runtime.use_workers([worker.address])


@pytest.mark.parametrize("place", ["remote_executor", "executor_pb2"])
def test_rounds_run_on_without_a_name(use, place, monkeypatch, executor_types):
  monkeypatch.setattr(private_tff, place, None)
  with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", RuntimeWarning)
    use()
    check_rounds()
  assert ["slower" in str(warning.message) for warning in caught] == [True]
  plain = (tff.framework.RemoteExecutor, tff.framework.RemoteExecutorGrpcStub)
  assert set(executor_types) == {plain}


def test_rounds_are_fast_and_silent_with_all_names(use, executor_types):
  with warnings.catch_warnings():
    warnings.simplefilter("error")
    use()
    check_rounds()
  for executor_type, stub_type in executor_types:
    assert issubclass(executor_type, resident_values.ResidentExecutor)
    assert issubclass(stub_type, worker_calls.LocalStub)
  assert executor_types


def test_the_plain_path_streams_structures_too(monkeypatch):
  monkeypatch.setattr(private_tff, "remote_executor", None)
  with pytest.warns(RuntimeWarning):
    runtime.use_local(stream_structs=True)

  @tff.tensorflow.computation([np.int32, tff.TensorType(np.float32, [3])])
  def doubled(parts):
    return parts[1] * tf.cast(2 * parts[0], tf.float32)

  found = doubled([np.int32(2), np.ones(3, np.float32)])
  np.testing.assert_array_equal(found, [4, 4, 4])
