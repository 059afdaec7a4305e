"""Tests of the runtime with TFF's private names, and without them."""

import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_fair
from tasks.models import convolutional
from tff_fair.runtime import admission, native, tff_internals
from tff_fair.runtime.one_graph import steps


@pytest.mark.parametrize(
  ("build", "expected"),
  [
    (lambda d: d, True),
    (lambda d: d.batch(2).take(1).repeat(2), True),
    (lambda d: tf.data.Dataset.zip((d, d.batch(1))), True),
    (lambda d: d.map(lambda x: x + 1), False),
    (lambda d: d.shuffle(3), False),
    (lambda d: d.shuffle(3).batch(2), False),
    (lambda d: d.cache(), False),
    (lambda d: tf.data.Dataset.zip((d, tf.data.Dataset.random(1))), False),
  ],
)
def test_datasets_without_functions_and_states_are_known(build, expected):
  dataset = build(tf.data.Dataset.from_tensor_slices(np.arange(4)))
  assert tff_internals.has_only_tensors(dataset) is expected


@tff.tensorflow.computation([tff.TensorType(np.float32, [None, 5])] * 3)
def joined(rows):
  folded = tf.constant(2.0) * tf.constant(3.0)
  return tf.concat([*rows], 0)[:2] * folded


# In the graph of `outer`, TFF keeps the placeholders of `joined`.
@tff.tensorflow.computation([tff.TensorType(np.float32, [None, 5])] * 3)
def outer(rows):
  return joined(rows)


def num_unread(graph):
  """Returns the number of float placeholders that no node of a graph reads."""
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
  module: Any = vars(tff_internals)["graph_optimizations"]
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
  for computation in (joined, joined, outer):  # No wrapper must wrap another.
    native.compile_now(computation)
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


def vgg11():
  return tff.learning.models.from_keras_model(
    convolutional.vgg11((32, 32, 3), 10, 0),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    input_spec=(
      tf.TensorSpec([None, 32, 32, 3], tf.float32),
      tf.TensorSpec([None], tf.int32),
    ),
  )


@pytest.mark.parametrize(
  "is_ours", [True, pytest.param(False, marks=pytest.mark.long)]
)
def test_a_round_of_a_large_model_is_one_graph(is_ours, monkeypatch):
  module: Any = vars(tff_internals)["graph_optimizations"]
  if not is_ours:
    original = getattr(module.tf_optimizer, "_optimizer", module.tf_optimizer)
    monkeypatch.setattr(module, "tf_optimizer", original)
    monkeypatch.setattr(tff_internals, "graph_optimizations", None)
  process = tff_fair.algorithms.build(
    "fedavg",
    vgg11,
    client_optimizer=tff.learning.optimizers.build_sgdm(0.01),
    batch_size=20,
  )
  plan = steps.read(native.compile_now(process.next))
  if is_ours:
    steps.check_works_as_one_graph(plan)
  else:  # TFF adds to a variable, and recomputes activations.
    with pytest.raises(admission.NotAdmittedError, match="operation Assign"):
      steps.check_works_as_one_graph(plan)


@pytest.mark.parametrize("module", [None, types.ModuleType("renamed")])
def test_an_optimizer_that_is_gone_is_no_error(module, monkeypatch):
  monkeypatch.setattr(tff_internals, "graph_optimizations", module)
  found = tff.types.deserialize_type(native.compile_now(joined).type)
  assert found.is_equivalent_to(joined.type_signature)
