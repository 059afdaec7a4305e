"""AdaFed: a common descent direction, steeper for clients with larger losses.

Hamidi, Yang, "AdaFed: Fair Federated Learning via Adaptive Common Descent
Direction" (TMLR 2024), Eqs. 5-14.

  phi_k = |f_k|^gamma
  d = u / ||u||^2,  u = sum_k (M^-1 phi)_k Delta_k
  c = M^-1 phi / (phi^T M^-1 phi)

M is the Gram matrix of the updates Delta_k, f_k is client k's loss, and c_k its
coefficient. This closed form of the paper's orthogonalization and weighting
(Eqs. 5-6 and 14) does not depend on the order of the clients. d is the point of
least norm in the affine hull of the Delta_k / phi_k, and Theorem 4.1 reads
<Delta_k, d> = phi_k / (phi^T M^-1 phi).

Choices made here: if M is singular, c is the minimum-norm solution, with a
relative cut-off of 1e-12. Dependent updates may require contradictory slopes:
the residual is then above 1e-6, or d is longer than the shortest Delta_k /
phi_k. In this case, which `convex_hull_used` reports, d is instead the point of
least norm in the convex hull of the Delta_k / phi_k with phi_k > 0. To first
order, this d raises the loss of no client in the hull.

With `hull` (not in the paper), the convex hull replaces the affine one
whenever a coefficient would be negative. Then <Delta_k / phi_k, d> >= ||d||^2
for each client with phi_k > 0, and d is 0 only at Pareto stationary points.
"""

import collections
import dataclasses

import tensorflow as tf

from tff_fair import declared, summing, types
from tff_fair.kernels import inner_product, min_norm_point, min_norm_solve
from tff_fair.methods import building

_RELATIVE_RESIDUAL = 1e-6
# Two norms count as equal up to this relative difference.
_NORM_TOLERANCE = 1e-9
# A coefficient counts as negative if it is below 0 by more than this share of
# the sum of all magnitudes.
_NEGATIVE_TOLERANCE = 1e-12
# If phi_k is at most this share of the largest one, 1 / phi_k^2 is too large.
_LEAST_RELATIVE_SLOPE = 1e-60


def adafed_coefficients(
  gram: tf.Tensor, loss: tf.Tensor, gamma: float, *, hull: bool = False
) -> tuple[tf.Tensor, collections.OrderedDict[str, tf.Tensor]]:
  """Returns AdaFed's coefficients, float64[clients], and measurements.

  `gram` is M, and `loss` is f. With `hull`, the convex hull replaces the affine
  hull if a coefficient would be negative. The measurements are whether the
  convex hull was used, and ||M alpha - phi|| / ||phi|| for alpha = M^-1 phi.
  """
  # Multiplying phi by s divides c by s. So the largest loss is factored out:
  # powers of huge or tiny losses stay in float64's range as long as possible.
  magnitude = tf.abs(loss)
  largest = tf.reduce_max(magnitude)
  largest = tf.where(largest > 0, largest, tf.ones_like(largest))
  # Not by `tf.cast`, which would first round a Python number to float32.
  exponent = tf.constant(gamma, loss.dtype)
  phi = tf.pow(magnitude / largest, exponent)
  scale = tf.pow(largest, -exponent)

  solution = min_norm_solve(gram, phi)
  alpha = solution.solution
  affine = tf.math.divide_no_nan(alpha, tf.reduce_sum(phi * alpha))

  usable = phi > _LEAST_RELATIVE_SLOPE
  inverse_phi = tf.where(
    usable, tf.math.reciprocal_no_nan(phi), tf.zeros_like(phi)
  )
  shortest = tf.reduce_min(
    tf.where(
      usable,
      tf.sqrt(tf.linalg.diag_part(gram)) * inverse_phi,
      tf.fill(tf.shape(phi), tf.constant(float("inf"), phi.dtype)),
    )
  )
  length = tf.sqrt(
    tf.nn.relu(inner_product(affine, tf.linalg.matvec(gram, affine)))
  )
  leaves_affine = tf.logical_or(
    solution.relative_residual > _RELATIVE_RESIDUAL,
    length > shortest * (1.0 + _NORM_TOLERANCE),
  )
  if hull:
    limit = -_NEGATIVE_TOLERANCE * tf.reduce_sum(tf.abs(affine))
    leaves_affine |= tf.reduce_min(affine) < limit
  leaves_affine &= tf.reduce_any(usable)

  def convex() -> tf.Tensor:
    hull_gram = gram * inverse_phi[:, tf.newaxis] * inverse_phi[tf.newaxis, :]
    point = min_norm_point(
      hull_gram,
      lower=tf.zeros_like(phi),
      upper=tf.cast(usable, phi.dtype),
    )
    return point.coefficients * inverse_phi

  coefficients = tf.cond(leaves_affine, convex, lambda: affine)
  return scale * coefficients, collections.OrderedDict(
    relative_residual=solution.relative_residual,
    convex_hull_used=tf.cast(leaves_affine, tf.int32),
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaFedRule(types.Rule):
  """Chooses AdaFed's coefficients."""

  gamma: float = declared.value(
    1.0, "How much steeper the direction is for larger losses.", minimum=0
  )
  hull: bool = declared.value(
    False,
    "Whether a round whose coefficients would not all be positive takes the "
    "point of least norm in the convex hull instead.",
  )

  signals = ("loss",)
  geometry = types.Geometry.GRAM

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    coefficients, measurements = adafed_coefficients(
      cohort.gram, cohort.loss, self.gamma, hull=self.hull
    )
    return types.RuleOutput(coefficients, state, measurements)


build_adafed = building.rule_builder(AdaFedRule, "adafed")


@summing.factory_of(AdaFedRule)
class AdaFedFactory(summing.RuleFactory):
  """Sums client updates with AdaFed's coefficients."""
