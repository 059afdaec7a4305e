"""Pure mathematics on small tensors, in float64; needs TensorFlow alone."""

from tff_fair.kernels.gram import combine_rows, gram_matrix, inner_products
from tff_fair.kernels.gram_solve import MinNormSolution, min_norm_solve
from tff_fair.kernels.min_norm import MinNormPoint, min_norm_point
from tff_fair.kernels.norms import inverse_norms
from tff_fair.kernels.simplex import project_to_box_simplex, project_to_simplex

__all__ = [
  "MinNormPoint",
  "MinNormSolution",
  "combine_rows",
  "gram_matrix",
  "inner_products",
  "inverse_norms",
  "min_norm_point",
  "min_norm_solve",
  "project_to_box_simplex",
  "project_to_simplex",
]
