"""Nash-MTL: the direction that is the clients' Nash bargaining solution.

Navon, Shamsian, Achituve, Maron, Kawaguchi, Chechik, Fetaya, "Multi-Task
Learning as a Bargaining Game" (ICML 2022).

  c > 0  with  (M c)_k = 1 / c_k

M is the Gram matrix of the m updates Delta_k. Among directions of length
sqrt(m), d maximizes the product of all <Delta_k, d>. Clients with Delta_k = 0
are left out.

Choices made here: Newton steps solve the equations up to rounding, and norms
are not clipped. c = 0 if 0 is in the convex hull of the updates (no client can
gain without another losing), or if the equations cannot be solved to 1e-6 in
float64. The error, max_k |c_k (M c)_k - 1|, is reported as `bargaining_error`.
"""

import collections
import dataclasses

from tff_fair import summing, types
from tff_fair.kernels import complementarity
from tff_fair.methods import building


@dataclasses.dataclass(frozen=True, kw_only=True)
class NashMtlRule(types.Rule):
  """Chooses Nash-MTL's coefficients."""

  geometry = types.Geometry.GRAM

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    bargain = complementarity.nash_bargain(cohort.gram)
    return types.RuleOutput(
      bargain.coefficients,
      state,
      collections.OrderedDict(bargaining_error=bargain.error),
    )


build_nash_mtl = building.rule_builder(NashMtlRule, "nash_mtl")


@summing.factory_of(NashMtlRule)
class NashMtlFactory(summing.RuleFactory):
  """Sums client updates with Nash-MTL's coefficients."""
