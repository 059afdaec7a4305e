"""Gram matrices and combinations of client updates, accurate to float64.

A float32 Gram matrix spoils every method that solves with it or takes small
differences of its entries, and a combination with large coefficients of both
signs loses digits as fast. Both are therefore computed in float64, by blocks of
columns, so that no float64 copy of all updates is ever made.
"""

from collections.abc import Sequence

import tensorflow as tf

_COLUMNS_PER_BLOCK = 4096
# Blocks that may be in memory, in float64, at the same time.
_PARALLEL_BLOCKS = 4


def gram_matrix(blocks: Sequence[tf.Tensor]) -> tf.Tensor:
  """Computes all inner products of vectors.

  Args:
    blocks: Tensors [m_i, d] of floating dtypes, at least one; their rows, one
      block after the other, are the m vectors.

  Returns:
    float64[m, m], X X^T, exactly symmetric. The squares of the values must be
    within the range of float64, as those of all float32 values are.

  Raises:
    ValueError: If there is no tensor, or one is not a matrix.
    TypeError: If a tensor is not of a floating dtype.
  """
  gram = inner_products(blocks, ())
  # The two triangles of a matrix product may round differently.
  return 0.5 * (gram + tf.transpose(gram))


def inner_products(
  blocks: Sequence[tf.Tensor], others: Sequence[tf.Tensor]
) -> tf.Tensor:
  """Computes the inner products of vectors with themselves and with others.

  Args:
    blocks: As in `gram_matrix`, m vectors.
    others: The same for r other vectors of the same length; may be empty.

  Returns:
    float64[m, m + r].

  Raises:
    ValueError: If `blocks` is empty, or a tensor is not a matrix.
    TypeError: If a tensor is not of a floating dtype.
  """
  blocks, others = _check_blocks(blocks), [*map(_check_matrix, others)]
  columns = tf.shape(blocks[0])[1]
  num_rows = _num_rows(blocks)
  total_rows = num_rows + (_num_rows(others) if others else 0)

  def add_products(
    start: tf.Tensor, products: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    first = _columns(blocks, start)
    # Small products side by side: large copies would cost more than they do.
    seconds = [first, *(_columns([other], start) for other in others)]
    found = [tf.matmul(first, second, transpose_b=True) for second in seconds]
    return start + _COLUMNS_PER_BLOCK, products + tf.concat(found, 1)

  return tf.while_loop(
    lambda start, _: start < columns,
    add_products,
    (tf.constant(0), tf.zeros([num_rows, total_rows], tf.float64)),
    shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
    parallel_iterations=_PARALLEL_BLOCKS,
  )[1]


def combine_rows(
  coefficients: tf.Tensor, blocks: Sequence[tf.Tensor]
) -> tf.Tensor:
  """Computes sum_k c_k * row_k, rounded to the dtype of the rows once.

  Args:
    coefficients: float64[m], c, of any size and sign.
    blocks: Tensors [m_i, d] of one floating dtype, at least one, all finite: a
      row of which nothing is wanted must still not hold NaN or infinities.

  Returns:
    A tensor [d] of the dtype of the rows.

  Raises:
    ValueError: If there is no tensor, or one is not a matrix.
    TypeError: If a tensor is not of a floating dtype.
  """
  blocks = _check_blocks(blocks)
  coefficients = tf.cast(coefficients, tf.float64)[tf.newaxis, :]
  dtype = blocks[0].dtype
  columns = tf.shape(blocks[0])[1]
  num_pieces = (columns + _COLUMNS_PER_BLOCK - 1) // _COLUMNS_PER_BLOCK

  def combine(
    index: tf.Tensor, pieces: tf.TensorArray
  ) -> tuple[tf.Tensor, tf.TensorArray]:
    piece = _columns(blocks, index * _COLUMNS_PER_BLOCK)
    combined = tf.matmul(coefficients, piece)[0]
    return index + 1, pieces.write(index, tf.cast(combined, dtype))

  _, pieces = tf.while_loop(
    lambda index, _: index < num_pieces,
    combine,
    (
      tf.constant(0),
      tf.TensorArray(
        dtype, size=num_pieces, infer_shape=False, element_shape=[None]
      ),
    ),
    parallel_iterations=_PARALLEL_BLOCKS,
  )
  return tf.ensure_shape(pieces.concat(), blocks[0].shape[1:])


def _num_rows(blocks: Sequence[tf.Tensor]) -> tf.Tensor:
  return tf.add_n([tf.shape(block)[0] for block in blocks])


def _columns(blocks: Sequence[tf.Tensor], start: tf.Tensor) -> tf.Tensor:
  """Returns columns of all rows from `start` on, float64[m, columns]."""
  stop = start + _COLUMNS_PER_BLOCK
  pieces = [block[:, start:stop] for block in blocks]
  if len({piece.dtype for piece in pieces}) == 1:
    return tf.cast(tf.concat(pieces, 0), tf.float64)
  return tf.concat([tf.cast(piece, tf.float64) for piece in pieces], 0)


def _check_blocks(blocks: Sequence[tf.Tensor]) -> list[tf.Tensor]:
  if not blocks:
    raise ValueError(
      "Expected at least one tensor [m, d], found none: without one the length "
      "of the vectors is unknown."
    )
  return [*map(_check_matrix, blocks)]


def _check_matrix(value: tf.Tensor) -> tf.Tensor:
  value = tf.convert_to_tensor(value)
  if not value.dtype.is_floating:
    raise TypeError(
      f"Vectors must be of a floating dtype, found {value.dtype.name}: cast "
      "them first."
    )
  if value.shape.rank not in (None, 2):
    raise ValueError(
      "Vectors must be the rows of tensors of two dimensions, found shape "
      f"{value.shape}: flatten each vector first."
    )
  return value
