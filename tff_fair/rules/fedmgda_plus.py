"""FedMGDA+: the common descent direction nearest to the origin, in a box.

Hu, Shaloudegi, Zhang, Yu, "Federated Learning Meets Multi-objective
Optimization" (FedMGDA+), Algorithm 1.

  g_k = Delta_k / ||Delta_k||  (a zero update stays zero)
  lambda = argmin ||sum_k lambda_k g_k||^2
           over the simplex with |lambda_k - p_k| <= epsilon
  d = sum_k lambda_k g_k,  hence  c_k = lambda_k / ||Delta_k||

epsilon = 0 is FedAvg-n, epsilon = 1 the full simplex; without normalization
and with epsilon = 1 it is FedMGDA.
"""

import collections
import dataclasses

import tensorflow as tf

from tff_fair import checks, types
from tff_fair.kernels import min_norm_point, norms


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedMgdaPlusRule(types.Rule):
  """FedMGDA+'s coefficients.

  Attributes:
    epsilon: How far lambda_k may be from p_k, in [0, 1].
    normalize: Whether each update is divided by its norm.
  """

  epsilon: float = 0.1
  normalize: bool = True

  geometry = types.Geometry.GRAM

  def __post_init__(self) -> None:
    """Checks the hyperparameters."""
    checks.check_number("epsilon", self.epsilon, minimum=0, maximum=1)
    checks.check_boolean("normalize", self.normalize)

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    gram, p = cohort.gram, cohort.weight
    scale = (
      norms.inverse_norms(cohort.squared_norm)
      if self.normalize
      else tf.ones_like(p)
    )
    gram = gram * scale[:, tf.newaxis] * scale[tf.newaxis, :]
    solution = min_norm_point(
      gram,
      lower=tf.maximum(p - self.epsilon, tf.zeros_like(p)),
      upper=tf.minimum(p + self.epsilon, tf.ones_like(p)),
    )
    largest = tf.reduce_max(tf.linalg.diag_part(gram))
    return types.RuleOutput(
      solution.coefficients * scale,
      state,
      collections.OrderedDict(
        lambda_min=tf.reduce_min(solution.coefficients),
        lambda_max=tf.reduce_max(solution.coefficients),
        relative_duality_gap=tf.math.divide_no_nan(solution.gap, largest),
      ),
    )
