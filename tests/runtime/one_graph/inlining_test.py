"""Tests of adding the graph of a computation to another graph."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from google.protobuf import text_format

from tff_fair.runtime.one_graph import inlining


def message_with_functions(addend):
  """Returns a serialized computation with the same function names each time."""

  @tff.tensorflow.computation(np.float32)
  def shifted(x):
    return tf.cond(x > 0, lambda: x + addend, lambda: x - addend)

  message = tff.framework.serialize_computation(shifted)
  graph_def = tf.compat.v1.GraphDef()
  message.tensorflow.graph_def.Unpack(graph_def)
  text = text_format.MessageToString(graph_def)
  names = [function.signature.name for function in graph_def.library.function]
  assert len(names) == 2
  for number, name in enumerate(sorted(names)):
    text = text.replace(f'"{name}"', f'"branch_{number}"')
  renamed = text_format.Parse(text, tf.compat.v1.GraphDef())
  message.tensorflow.graph_def.Pack(renamed)
  return message


def test_functions_of_one_name_are_those_of_their_computation():
  x = tf.constant([1.0, -1.0])
  for addend in (1.0, 2.0, 3.0):
    function = inlining.function_of(message_with_functions(addend))
    graph = tf.compat.v1.wrap_function(
      function, [tf.TensorSpec([], tf.float32)]
    )
    found = [float(graph(value)) for value in x]
    assert found == [1 + addend, -1 - addend]


def test_what_no_result_needs_does_not_run():
  @tff.tensorflow.computation(np.float32, np.float32)
  def first(x, unused):
    tf.debugging.assert_less(unused, 0.0)  # No result needs this.
    return x

  message = tff.framework.serialize_computation(first)
  function = inlining.function_of(message)
  spec = tf.TensorSpec([], tf.float32)
  graph = tf.compat.v1.wrap_function(
    lambda x, unused: function((x, unused)), [spec, spec]
  )
  assert float(graph(tf.constant(1.0), tf.constant(2.0))) == 1
