"""Minimum-norm solutions of linear systems with a Gram matrix."""

from typing import NamedTuple

import tensorflow as tf


class MinNormSolution(NamedTuple):
  """A least-squares solution of M alpha = phi.

  Attributes:
    solution: float64[m], alpha, the shortest of all least-squares solutions.
    relative_residual: float64[], ||M alpha - phi|| / ||phi||, and 0 where phi
      is 0. Far above rounding, it says that the system has no solution.
  """

  solution: tf.Tensor
  relative_residual: tf.Tensor


def min_norm_solve(
  gram: tf.Tensor, rhs: tf.Tensor, relative_cutoff: float = 1e-12
) -> MinNormSolution:
  """Solves M alpha = phi by the pseudo-inverse of M.

  Args:
    gram: float64[m, m], M, symmetric positive semidefinite, m >= 1, of any
      scale.
    rhs: float64[m], phi, of any scale.
    relative_cutoff: Eigenvalues of M up to this share of the largest one count
      as zero.

  Returns:
    The solution, finite for any finite input: an entry beyond the range of
    float64 takes its largest value. It is 0 where M is 0.
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
  # In two steps, since the quotient of the scales alone may overflow; without
  # the inner saturation, graph optimization would put them together again.
  root = _saturate(tf.sqrt(rhs_scale) / tf.sqrt(gram_scale))
  return MinNormSolution(
    solution=_saturate(root * _saturate(root * solution)),
    relative_residual=tf.math.divide_no_nan(tf.norm(residual), tf.norm(rhs)),
  )


def _scale_to_one(value: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  """Divides by the largest magnitude, if there is one."""
  scale = tf.reduce_max(tf.abs(value))
  scale = tf.where(scale > 0, scale, tf.ones_like(scale))
  return value / scale, scale


def _saturate(value: tf.Tensor) -> tf.Tensor:
  return tf.clip_by_value(value, value.dtype.min, value.dtype.max)
