"""The options by which TensorFlow runs graphs, as TFF's worker runs them."""

import tensorflow as tf

from tff_fair.runtime import threads


def of_graphs() -> tf.compat.v1.ConfigProto:
  """Returns options that leave graphs as they are.

  TFF's compiler has optimized each computation. To optimize once more takes
  time, and TensorFlow's optimizer then breaks some loops within branches: their
  nodes "have inputs from different frames".
  """
  config = tf.compat.v1.ConfigProto(
    allow_soft_placement=True,
    intra_op_parallelism_threads=threads.threads_per_operation(),
  )
  config.graph_options.rewrite_options.disable_meta_optimizer = True
  optimizer = config.graph_options.optimizer_options
  optimizer.opt_level = tf.compat.v1.OptimizerOptions.L0
  optimizer.global_jit_level = tf.compat.v1.OptimizerOptions.OFF
  return config
