"""Gram matrices and combinations of client updates, accurate to float64.

A float32 Gram matrix spoils every method that solves with it or takes small
differences of its entries, and a combination with large coefficients of both
signs loses digits as fast. Both are therefore computed in float64, by blocks of
columns, so that no float64 copy of all updates is ever made.
"""

from collections.abc import Sequence

import tensorflow as tf

_COLUMNS_PER_BLOCK = 16384
# Blocks that may be in memory, in float64, at the same time.
_PARALLEL_BLOCKS = 4


def gram_matrix(updates: Sequence[tf.Tensor]) -> tf.Tensor:
  """Computes all inner products of m vectors that are given in pieces.

  Args:
    updates: Tensors [m, d_l] of any floating dtypes, at least one; row k of all
      of them together is vector k (one tensor per layer, say).

  Returns:
    float64[m, m], sum_l X_l X_l^T, exactly symmetric. The squares of the values
    must be within the range of float64, as those of all float32 values are.

  Raises:
    ValueError: If there is no tensor, or one is not a matrix.
    TypeError: If a tensor is not of a floating dtype.
  """
  if not updates:
    raise ValueError(
      "gram_matrix needs at least one tensor [m, d_l], found none: without one "
      "the number of rows m is unknown."
    )
  rows = tf.shape(_check_matrix("updates", updates[0]))[0]
  gram = tf.zeros([rows, rows], tf.float64)
  for matrix in updates:
    gram += _gram_of_one(_check_matrix("updates", matrix))
  # The two triangles of a matrix product may round differently.
  return 0.5 * (gram + tf.transpose(gram))


def combine_rows(coefficients: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
  """Computes sum_k c_k * rows_k, rounded to the dtype of the rows once.

  Args:
    coefficients: float64[m], c, of any size and sign.
    rows: A tensor [m, d] of a floating dtype, finite: a row of which nothing is
      wanted must still not hold NaN or infinities.

  Returns:
    A tensor [d] of the dtype of `rows`.

  Raises:
    ValueError: If `rows` is not a matrix.
    TypeError: If `rows` is not of a floating dtype.
  """
  rows = _check_matrix("rows", rows)
  coefficients = tf.cast(coefficients, tf.float64)[tf.newaxis, :]
  num_blocks = _num_blocks(rows)

  def combine_block(
    index: tf.Tensor, pieces: tf.TensorArray
  ) -> tuple[tf.Tensor, tf.TensorArray]:
    combined = tf.matmul(coefficients, _block(rows, index))[0]
    return index + 1, pieces.write(index, tf.cast(combined, rows.dtype))

  _, pieces = tf.while_loop(
    lambda index, _: index < num_blocks,
    combine_block,
    (
      tf.constant(0),
      tf.TensorArray(
        rows.dtype, size=num_blocks, infer_shape=False, element_shape=[None]
      ),
    ),
    parallel_iterations=_PARALLEL_BLOCKS,
  )
  return tf.ensure_shape(pieces.concat(), rows.shape[1:])


def _gram_of_one(matrix: tf.Tensor) -> tf.Tensor:
  num_blocks = _num_blocks(matrix)
  rows = tf.shape(matrix)[0]

  def add_block(
    index: tf.Tensor, gram: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    block = _block(matrix, index)
    return index + 1, gram + tf.matmul(block, block, transpose_b=True)

  _, gram = tf.while_loop(
    lambda index, _: index < num_blocks,
    add_block,
    (tf.constant(0), tf.zeros([rows, rows], tf.float64)),
    shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
    parallel_iterations=_PARALLEL_BLOCKS,
  )
  return gram


def _num_blocks(matrix: tf.Tensor) -> tf.Tensor:
  columns = tf.shape(matrix)[1]
  return (columns + _COLUMNS_PER_BLOCK - 1) // _COLUMNS_PER_BLOCK


def _block(matrix: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
  start = index * _COLUMNS_PER_BLOCK
  return tf.cast(matrix[:, start : start + _COLUMNS_PER_BLOCK], tf.float64)


def _check_matrix(name: str, value: tf.Tensor) -> tf.Tensor:
  value = tf.convert_to_tensor(value)
  if not value.dtype.is_floating:
    raise TypeError(
      f"{name} must be of a floating dtype, found {value.dtype.name}: cast it "
      "first."
    )
  if value.shape.rank not in (None, 2):
    raise ValueError(
      f"{name} must have two dimensions, [vectors, values], found shape "
      f"{value.shape}: flatten each vector first."
    )
  return value
