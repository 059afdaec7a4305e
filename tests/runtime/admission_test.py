"""Tests of which computations the runtime may rewrite."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import admission, mergeable_aggregate

compute = tff.tensorflow.computation

FLOATS = tff.FederatedType(np.float32, tff.CLIENTS)


def test_pure_operations_are_functions_of_their_arguments():
  graph = tf.Graph()
  for name in admission._PURE:
    found = graph.op_def_for_type(name)
    assert not found.is_stateful, name
    for arg in (*found.input_arg, *found.output_arg):
      assert not arg.is_ref, name
      assert arg.type != tf.resource.as_datatype_enum, name


@pytest.mark.parametrize(
  "name",
  [
    "CacheDatasetV2",
    "EagerPyFunc",
    "Empty",
    "HashTableV2",
    "ImmutableConst",
    "MatchingFiles",
    "PrintV2",
    "PyFuncStateless",
    "RandomUniform",
    "ReadFile",
    "ShuffleDatasetV3",
    "StatefulUniform",
    "Timestamp",
    "WriteFile",
  ],
)
def test_what_draws_reads_or_writes_is_not_known(name):
  graph_def = tf.compat.v1.GraphDef()
  graph_def.node.add(name="x", op=name)
  with pytest.raises(admission.NotAdmittedError, match=name):
    admission.check_graph(graph_def)


def test_functions_of_a_graph_are_looked_into():
  @tf.function
  def noisy():
    return tf.random.uniform([])

  with tf.Graph().as_default() as graph:
    noisy()
  with pytest.raises(admission.NotAdmittedError, match="RandomUniform"):
    admission.check_graph(graph.as_graph_def())


def test_sums_of_tff_and_aggregates_for_parts_are_cut():
  collect = mergeable_aggregate.build(
    tff.TensorType(np.float32),
    zero=lambda: tf.zeros([]),
    accumulate=lambda a, x: a + x,
    merge=lambda a, b: a + b,
  )

  @tff.federated_computation(FLOATS)
  def sums(x):
    return (
      tff.federated_sum(x),
      tff.federated_mean(x),
      tff.federated_max(x),
      collect(x),
    )

  admission.check_aggregates(sums)


def test_other_aggregates_are_not_cut():
  add = compute(lambda a, x: a + x, (np.float32, np.float32))
  same = compute(lambda x: x, np.float32)
  one = compute(lambda: np.float32(1))

  @tff.federated_computation(FLOATS)
  def sums(x):
    return tff.federated_aggregate(x, one(), add, add, same)

  with pytest.raises(admission.NotAdmittedError, match="zero"):
    admission.check_aggregates(sums)


NUMBERS = tf.data.Dataset.range(4)


@pytest.mark.parametrize(
  ("dataset", "expected"),
  [
    (NUMBERS.map(lambda x: 2 * x).batch(2).repeat(2).prefetch(1), "UNLIMITED"),
    (NUMBERS.shuffle(4, seed=1), "ONCE_PER_REBUILD"),
    (
      NUMBERS.batch(2).shuffle(4).repeat(2).map(lambda x: 2 * x),
      "ONCE_PER_REBUILD",
    ),
    (NUMBERS.cache(), "UNKNOWN"),
    (
      NUMBERS.map(lambda x: x + tf.random.uniform([], 0, 9, tf.int64)),
      "UNKNOWN",
    ),
  ],
)
def test_a_graph_decides_how_often_a_dataset_may_be_read(dataset, expected):
  graph = tf.raw_ops.DatasetToGraphV2(
    input_dataset=tf.data.experimental.to_variant(dataset)
  )
  assert admission.read_limit(graph.numpy()).name == expected


@pytest.mark.parametrize(
  ("value", "expected"),
  [
    (np.zeros(2, np.float32), True),
    (np.array(1, np.float32), True),
    (np.float32(1), False),
    ([1.0, 2.0], False),
    (np.zeros(2, np.float64), False),
    (np.zeros(2, ">f4"), False),
    (np.ma.zeros(2, np.float32), False),
    (np.array(["a", "b"], object), False),
    (np.zeros([2, 1], np.float32), False),
  ],
)
def test_plain_arrays(value, expected):
  type_spec = tff.TensorType(np.float32, value.shape if expected else [2])
  assert admission.is_plain_array(value, type_spec) is expected


def test_a_name_of_a_field_is_no_intrinsic():
  field = tff.StructType([("federated_secure_sum", np.int32)])

  @tff.federated_computation(tff.FederatedType(field, tff.CLIENTS))
  def sums(x):
    return tff.federated_sum(x)

  assert not admission.has_intrinsic(sums, ["federated_secure_sum"])
  assert admission.has_intrinsic(sums, ["federated_sum"])


@pytest.mark.parametrize("jit_compile", [True, False])
def test_what_xla_compiles_is_not_admitted(jit_compile):
  twice = tf.function(lambda x: x + x, jit_compile=jit_compile)
  with tf.Graph().as_default() as graph:
    twice(tf.constant(1.0))
  if jit_compile:
    with pytest.raises(admission.NotAdmittedError, match="XLA"):
      admission.check_graph(graph.as_graph_def())
  else:
    admission.check_graph(graph.as_graph_def())


@tff.tensorflow.computation(tff.TensorType(np.float32, [2, 2, 2, 3]))
def normalized(x):
  ones = tf.ones([3])
  return tf.raw_ops.FusedBatchNormV3(
    x=x, scale=ones, offset=ones, mean=[], variance=[]
  ).y


@pytest.mark.parametrize("operation", sorted(admission.ONE_CALL_AT_A_TIME))
def test_clients_of_kernels_with_a_state_are_not_side_by_side(operation):
  message = tff.framework.serialize_computation(normalized)
  graph_def = tf.compat.v1.GraphDef()
  message.tensorflow.graph_def.Unpack(graph_def)
  (node,) = (n for n in graph_def.node if n.op == "FusedBatchNormV3")
  for op, expected in ((operation, False), ("Identity", True)):
    node.op = op
    message.tensorflow.graph_def.Pack(graph_def)
    listed = admission.has_operation(message, admission.ONE_CALL_AT_A_TIME)
    assert listed != expected
