"""Pure mathematics on small tensors, in float64; imports only TensorFlow."""

from tff_fair.kernels.gram import (
  MinNormSolution,
  combine_rows,
  gram_matrix,
  inner_products,
  min_norm_solve,
)
from tff_fair.kernels.norms import inverse_norms
from tff_fair.kernels.quadratic_program import (
  Minimum,
  Stationarity,
  min_norm_point,
  pareto_stationarity,
)
from tff_fair.kernels.simplex import project_to_box_simplex, project_to_simplex

__all__ = [
  "MinNormSolution",
  "Minimum",
  "Stationarity",
  "combine_rows",
  "gram_matrix",
  "inner_products",
  "inverse_norms",
  "min_norm_point",
  "min_norm_solve",
  "pareto_stationarity",
  "project_to_box_simplex",
  "project_to_simplex",
]
