"""UPGrad: the mean of updates, each projected so as to descend for all.

Quinton, Rey, "Jacobian Descent for Multi-Objective Optimization" (arXiv
2406.16232).

  w_i = argmin v^T M v  over  v >= e_i
  c = 1/m sum_i w_i

M is the Gram matrix of the m updates Delta_k, and e_i the i-th unit vector. The
sum over k of w_ik Delta_k is the projection of Delta_i onto the dual cone of
the cohort, {d : <Delta_k, d> >= 0 for all k}. So d, the mean of these
projections, raises no client's loss to first order, and is the mean of the
updates if no two of them conflict.

Choice made here: M is not regularized, unlike in the authors' published code.
"""

import dataclasses

import tensorflow as tf

from tff_fair import summing, types
from tff_fair.kernels import complementarity
from tff_fair.methods import building


@dataclasses.dataclass(frozen=True, kw_only=True)
class UpGradRule(types.Rule):
  """Chooses UPGrad's coefficients."""

  geometry = types.Geometry.GRAM

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    projections = complementarity.dual_cone_projections(cohort.gram)
    return types.RuleOutput(tf.reduce_mean(projections, 0), state)


build_upgrad = building.rule_builder(UpGradRule, "upgrad")


@summing.factory_of(UpGradRule)
class UpGradFactory(summing.RuleFactory):
  """Sums client updates with UPGrad's coefficients."""
