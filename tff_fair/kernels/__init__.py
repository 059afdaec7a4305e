"""The mathematics of rules and sums: functions of tensors, in float64.

The package imports only TensorFlow.
"""

from tff_fair.kernels.gram import (
  MinNormSolution as MinNormSolution,
  combine_rows as combine_rows,
  gram_matrix as gram_matrix,
  inner_product as inner_product,
  inner_products as inner_products,
  min_norm_solve as min_norm_solve,
)
from tff_fair.kernels.norms import inverse_norms as inverse_norms
from tff_fair.kernels.quadratic_program import (
  Minimum as Minimum,
  Stationarity as Stationarity,
  min_norm_point as min_norm_point,
  pareto_stationarity as pareto_stationarity,
)
from tff_fair.kernels.simplex import (
  project_to_box_simplex as project_to_box_simplex,
  project_to_simplex as project_to_simplex,
)
