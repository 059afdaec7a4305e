"""Computes Gram matrices and linear combinations of updates in float64.

A float32 Gram matrix is too inexact for methods that solve linear systems with
it or take small differences of its entries. A float32 combination is too
inexact if it has large coefficients of both signs. This module computes both in
float64 from a few blocks of columns at a time, so there is never a float64 copy
of all updates.
"""

from collections.abc import Sequence
from typing import NamedTuple, Self

import tensorflow as tf

# The number of values in a block. In float64, a block takes 4 MiB and fits into
# a processor's cache.
_VALUES_PER_BLOCK = 2**19
# How many float64 blocks may be in memory at the same time.
_PARALLEL_BLOCKS = 4


class Columns:
  """Vectors, stored as the rows of matrices and read in blocks of columns.

  Attributes:
    dtype: The dtype of the vectors; float64 if their dtypes differ.
    shape: The static shape of a vector, [d].
    num_rows: int32[], the number of vectors.
    num_blocks: int32[], the number of blocks, at least one.
  """

  def __init__(self, matrices: Sequence[tf.Tensor]) -> None:
    """Stores matrices whose rows, in order, are the vectors."""
    self._matrices = _check_matrices(matrices)
    self._length = tf.shape(self._matrices[0])[1]
    self._joined: tf.TensorArray | None = None
    dtypes = {matrix.dtype for matrix in self._matrices}
    self.dtype = dtypes.pop() if len(dtypes) == 1 else tf.float64
    self.shape = self._matrices[0].shape[1:]
    self.num_rows = tf.add_n([tf.shape(m) for m in self._matrices])[0]
    self._width = tf.maximum(
      1, _VALUES_PER_BLOCK // tf.maximum(1, self.num_rows)
    )
    self.num_blocks = tf.maximum(1, -(-self._length // self._width))

  def join(self) -> Self:
    """Copies the matrices into an array of blocks, for faster repeated reads.

    Returns self. Unlike one large matrix, blocks fit into gaps of freed memory.
    """
    joined = tf.TensorArray(
      self.dtype,
      size=self.num_blocks,
      clear_after_read=False,
      infer_shape=False,
      element_shape=[None, None],
    )
    self._joined = tf.while_loop(
      lambda index, _: index < self.num_blocks,
      lambda index, joined: (index + 1, joined.write(index, self._cut(index))),
      (tf.constant(0), joined),
      parallel_iterations=_PARALLEL_BLOCKS,
    )[1]
    return self

  def read(self, index: tf.Tensor) -> tf.Tensor:
    """Returns the columns of block `index`, float64[num_rows, columns]."""
    if self._joined is None:
      return tf.cast(self._cut(index), tf.float64)
    return tf.cast(self._joined.read(index), tf.float64)

  def _cut(self, index: tf.Tensor) -> tf.Tensor:
    start = index * self._width
    begin = tf.stack([0, start])
    size = tf.stack([-1, tf.minimum(self._width, self._length - start)])
    pieces = [tf.slice(matrix, begin, size) for matrix in self._matrices]
    return tf.concat([tf.cast(piece, self.dtype) for piece in pieces], 0)


def gram_matrix(vectors: Columns | Sequence[tf.Tensor]) -> tf.Tensor:
  """Computes the Gram matrix of m vectors, float64[m, m].

  The result is exactly symmetric. The squares of the values must be within the
  range of float64, which holds for all float32 values. Raises `ValueError` if
  `vectors` is empty or includes a tensor that is not a matrix, and `TypeError`
  if a tensor's dtype is not floating.
  """
  columns = _columns(vectors)
  return symmetric(_products(columns, columns.num_rows))


def symmetric(gram: tf.Tensor) -> tf.Tensor:
  """Averages the two triangles of a product, which may round differently."""
  return 0.5 * (gram + tf.transpose(gram))


def inner_product(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
  """Returns the inner product <x, y> of two vectors as a scalar.

  `tf.tensordot` would create five times as many operations. A rule computes
  hundreds of inner products, and every operation takes time when a process is
  built.
  """
  row, column = tf.expand_dims(x, 0), tf.expand_dims(y, 1)
  return tf.reshape(tf.matmul(row, column), [])


def inner_products(
  vectors: Sequence[tf.Tensor], others: Sequence[tf.Tensor]
) -> tf.Tensor:
  """Computes the inner products of m vectors with themselves and r others.

  The result is float64[m, m + r], with the columns of `others` last; r may be
  0. Raises the errors of `gram_matrix`.
  """
  num_rows = Columns(vectors).num_rows
  return tf.transpose(_products(Columns([*vectors, *others]), num_rows))


def combine_rows(
  coefficients: tf.Tensor, vectors: Columns | Sequence[tf.Tensor]
) -> tf.Tensor:
  """Computes sum_k c_k * row_k in float64, and rounds it to the rows' dtype.

  The coefficients c, float64, may have any size and sign. All rows must be
  finite, even those with the coefficient 0. If the rows' dtypes differ, the
  result is float64. Raises the errors of `gram_matrix`.
  """
  columns = _columns(vectors)
  coefficients = tf.cast(coefficients, tf.float64)[tf.newaxis, :]

  def combine(
    index: tf.Tensor, pieces: tf.TensorArray
  ) -> tuple[tf.Tensor, tf.TensorArray]:
    combined = tf.matmul(coefficients, columns.read(index))[0]
    return index + 1, pieces.write(index, tf.cast(combined, columns.dtype))

  _, pieces = tf.while_loop(
    lambda index, _: index < columns.num_blocks,
    combine,
    (
      tf.constant(0),
      tf.TensorArray(
        columns.dtype,
        size=columns.num_blocks,
        infer_shape=False,
        element_shape=[None],
      ),
    ),
    parallel_iterations=_PARALLEL_BLOCKS,
  )
  return tf.ensure_shape(pieces.concat(), columns.shape)


def _products(columns: Columns, num_rows: tf.Tensor) -> tf.Tensor:
  """Returns all vectors' inner products with the first `num_rows` vectors."""

  def add_products(
    index: tf.Tensor, products: tf.Tensor
  ) -> tuple[tf.Tensor, tf.Tensor]:
    block = columns.read(index)
    found = tf.matmul(block, block[:num_rows], transpose_b=True)
    return index + 1, products + found

  return tf.while_loop(
    lambda index, _: index < columns.num_blocks,
    add_products,
    (tf.constant(0), tf.zeros([columns.num_rows, num_rows], tf.float64)),
    shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
    parallel_iterations=_PARALLEL_BLOCKS,
  )[1]


def _columns(vectors: Columns | Sequence[tf.Tensor]) -> Columns:
  return vectors if isinstance(vectors, Columns) else Columns(vectors)


def _check_matrices(matrices: Sequence[tf.Tensor]) -> list[tf.Tensor]:
  if not matrices:
    raise ValueError(
      "Expected at least one tensor [m, d], found none: without one the length "
      "of the vectors is unknown."
    )
  return [*map(_check_matrix, matrices)]


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


class MinNormSolution(NamedTuple):
  """The shortest least-squares solution of M alpha = phi.

  Attributes:
    solution: float64[m], alpha.
    relative_residual: float64[], ||M alpha - phi|| / ||phi||, and 0 if phi is
      0. If it is far above rounding errors, the system has no solution.
  """

  solution: tf.Tensor
  relative_residual: tf.Tensor


def min_norm_solve(
  gram: tf.Tensor, rhs: tf.Tensor, relative_cutoff: float = 1e-12
) -> MinNormSolution:
  """Solves M alpha = phi by the pseudo-inverse of M.

  M is `gram`, float64[m, m], symmetric positive semidefinite, and phi is `rhs`,
  float64[m]; both may have any scale. Eigenvalues of M up to `relative_cutoff`
  times the largest one count as zero. The solution is finite for finite input:
  its entries are clipped to the range of float64. It is 0 if M is 0.
  """
  gram, gram_scale = _scale_to_one(tf.cast(gram, tf.float64))
  rhs, rhs_scale = _scale_to_one(tf.cast(rhs, tf.float64))

  eigenvalues, eigenvectors = tf.linalg.eigh(gram)
  kept = eigenvalues > relative_cutoff * tf.nn.relu(eigenvalues[-1])
  components = tf.linalg.matvec(eigenvectors, rhs, transpose_a=True)
  solution = tf.linalg.matvec(
    eigenvectors,
    tf.where(kept, tf.math.divide_no_nan(components, eigenvalues), 0.0),
  )
  residual = tf.linalg.matvec(gram, solution) - rhs
  # Multiplies by rhs_scale / gram_scale in two steps, because this quotient may
  # overflow. The inner `_saturate` keeps graph optimization from merging the
  # two steps.
  root = _saturate(tf.sqrt(rhs_scale) / tf.sqrt(gram_scale))
  return MinNormSolution(
    solution=_saturate(root * _saturate(root * solution)),
    relative_residual=tf.math.divide_no_nan(tf.norm(residual), tf.norm(rhs)),
  )


def _scale_to_one(value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Returns `value` / s and s, the largest magnitude in `value`.

  If all entries are 0, s is 1.
  """
  scale = tf.reduce_max(tf.abs(value))
  scale = tf.where(scale > 0, scale, tf.ones_like(scale))
  return value / scale, scale


def _saturate(value: tf.Tensor) -> tf.Tensor:
  return tf.clip_by_value(value, value.dtype.min, value.dtype.max)
