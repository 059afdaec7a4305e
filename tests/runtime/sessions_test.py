"""Tests of TensorFlow computations in sessions."""

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.runtime import sessions


def test_an_empty_graph_has_an_empty_result():
  nothing = tff.tensorflow.computation(lambda: ())
  message = tff.framework.serialize_computation(nothing)
  # TFF's optimizer leaves such a graph if stock FedAvg has no state.
  message.tensorflow.graph_def.Pack(tf.compat.v1.GraphDef())
  message.tensorflow.session_token_tensor_name = ""
  assert sessions.Session(message)() == ()
