"""The point of least norm in a convex hull, with bounds on the coefficients.

  minimize x^T G x  subject to  sum_k x_k = 1,  lower <= x <= upper

with G the Gram matrix of m points: the quadratic program of MGDA (Desideri,
"Multiple-gradient descent algorithm (MGDA) for multiobjective optimization",
Comptes Rendus Mathematique 350, 2012) and, with the box, of FedMGDA+.

The interior-point method needs 5 to 15 Newton steps of O(m^3), singular or not,
unless the points' norms differ by orders of magnitude. Where the minimizer is
not unique, it goes to the analytic centre of the face of minimizers, which
treats all points alike: identical points with identical bounds get equal
coefficients, in any order, up to rounding.
"""

from typing import TypeAlias

import tensorflow as tf

from tff_fair.kernels import quadratic_program

MinNormPoint: TypeAlias = quadratic_program.Minimum


def min_norm_point(
  gram: tf.Tensor, lower: tf.Tensor | float, upper: tf.Tensor | float
) -> MinNormPoint:
  """Minimizes x^T G x over a box in the probability simplex.

  Args:
    gram: float64[m, m], G, symmetric positive semidefinite, m >= 1; it may be
      singular, and its scale may be anything.
    lower: float64[m] or a scalar, 0 <= lower <= upper.
    upper: float64[m] or a scalar; values above 1 act as 1. Where sum(lower) > 1
      or sum(upper) < 1, no point is feasible, and the result is that corner of
      the box.

  Returns:
    The solution, finite for any finite `gram`.
  """
  return quadratic_program.minimize(gram, None, lower, upper)
