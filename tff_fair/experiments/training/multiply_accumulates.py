"""The multiply-accumulate operations of a model, counted as it runs.

One example goes through the model, operation by operation, and the products of
matrices and the convolutions are counted, with each step of a recurrent layer.
Neither layers nor graphs would do: layers may be anybody's, and a graph does
not say how often its loops run. What is done to single elements (activations,
normalizations, look-ups of embeddings) is not counted.
"""

import contextlib
import math
from collections.abc import Iterator, Sequence

import tensorflow as tf

# The public interface has no way to watch operations.
from tensorflow.python.framework import op_callbacks

import tasks

_CONVOLUTIONS = ("Conv2D", "Conv3D")
_DEPTHWISE = "DepthwiseConv2dNative"
_PRODUCTS = ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
# Of dimensions that the data leaves open: the first example may say nothing.
_LEAST_LENGTH = 1


def count(task: tasks.Task) -> int:
  """Returns the multiply-accumulates of a forward pass of one example.

  Args:
    task: Its model, and the shape of its examples; where that is open, an
      example has the length 1.
  """
  example = tuple(
    tf.zeros(
      [1, *(size or _LEAST_LENGTH for size in spec.shape[1:])], spec.dtype
    )
    for spec in task.element_spec
  )
  total = 0

  def watch(
    op_type: object,
    inputs: Sequence[tf.Tensor],
    attrs: object,
    outputs: Sequence[tf.Tensor],
    *unused: object,
  ) -> Sequence[tf.Tensor]:
    nonlocal total
    del attrs, unused
    total += _of_operation(str(op_type), inputs, outputs)
    return outputs

  with _operation_by_operation():
    model = task.model_fn()
    op_callbacks.add_op_callback(watch)
    try:
      model.forward_pass(example, training=False)
    finally:
      op_callbacks.remove_op_callback(watch)
  return total


@contextlib.contextmanager
def _operation_by_operation() -> Iterator[None]:
  before = tf.config.functions_run_eagerly()
  tf.config.run_functions_eagerly(True)
  try:
    yield
  finally:
    tf.config.run_functions_eagerly(before)


def _of_operation(
  op_type: str, inputs: Sequence[tf.Tensor], outputs: Sequence[tf.Tensor]
) -> int:
  """Returns how many products are added up for all entries of the output."""
  if op_type in _PRODUCTS:
    # Of [..., a, b] and [..., b, c], either transposed: (abc)^2 over its root.
    first, second, result = (
      math.prod(x.shape[-2:]) for x in (*inputs[:2], outputs[0])
    )
    num_products = math.prod(outputs[0].shape[:-2])
    return num_products * math.isqrt(first * second * result)
  if op_type in _CONVOLUTIONS:
    return math.prod(outputs[0].shape) * math.prod(inputs[1].shape[:-1])
  if op_type == _DEPTHWISE:
    return math.prod(outputs[0].shape) * math.prod(inputs[1].shape[:-2])
  return 0
