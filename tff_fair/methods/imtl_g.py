"""IMTL-G: the direction that is equally steep along each client's update.

Liu, Li, Kuang, Xue, Chen, Yang, Liao, Zhang, "Towards Impartial Multi-Task
Learning" (ICLR 2021).

This is the form that allows linearly dependent updates Delta_k (Quinton and
Rey, arXiv 2406.16232). M is their Gram matrix, and c_k client k's coefficient:

  v = M^+ s,  s_k = ||Delta_k||
  c = v / sum_k v_k

Then <Delta_k, d> / ||Delta_k|| is the same for all clients, if such a direction
exists: `relative_residual`, ||M v - s|| / ||s||, is then 0.

Choices made here: the pseudo-inverse M^+ has a relative cut-off of 1e-12; c = 0
if the sum of v is 0 up to rounding. Coefficients may be negative.
"""

import collections
import dataclasses

import tensorflow as tf

from tff_fair import summing, types
from tff_fair.kernels import min_norm_solve
from tff_fair.methods import building

# A sum counts as 0 if it is at most this share of the sum of magnitudes.
_NEGLIGIBLE = 1e-12


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImtlGRule(types.Rule):
  """Chooses IMTL-G's coefficients."""

  geometry = types.Geometry.GRAM

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    v, residual = min_norm_solve(cohort.gram, tf.sqrt(cohort.squared_norm))
    v = tf.math.divide_no_nan(v, tf.reduce_sum(tf.abs(v)))
    total = tf.reduce_sum(v)
    coefficients = tf.where(
      tf.abs(total) > _NEGLIGIBLE, v / total, tf.zeros_like(v)
    )
    return types.RuleOutput(
      coefficients, state, collections.OrderedDict(relative_residual=residual)
    )


build_imtl_g = building.rule_builder(ImtlGRule, "imtl_g")


@summing.factory_of(ImtlGRule)
class ImtlGFactory(summing.RuleFactory):
  """Sums client updates with IMTL-G's coefficients."""
