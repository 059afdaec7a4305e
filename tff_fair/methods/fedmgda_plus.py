"""FedMGDA+: the common descent direction of least norm, with bounded weights.

Hu, Shaloudegi, Zhang, Yu, "Federated Learning Meets Multi-objective
Optimization" (FedMGDA+), Algorithm 1.

  g_k = Delta_k / ||Delta_k||  (a zero update stays zero)
  lambda = argmin ||sum_k lambda_k g_k||^2
           over the simplex with |lambda_k - p_k| <= epsilon
  d = sum_k lambda_k g_k,  hence  c_k = lambda_k / ||Delta_k||

Delta_k is client k's update and p_k its weight. epsilon = 0 is FedAvg-n,
epsilon = 1 the full simplex. Two variants have names: FedMGDA, which does not
normalize the updates and uses the full simplex (Desideri's MGDA, at the
server), and MGDA-Prox, with FedProx's proximal term at the clients.
"""

import collections
import dataclasses
from typing import Unpack

import tensorflow as tf

from tff_fair import declared, rounds, summing, types
from tff_fair.kernels import min_norm_point, norms
from tff_fair.methods import building


@dataclasses.dataclass(frozen=True, kw_only=True)
class FedMgdaPlusRule(types.Rule):
  """Chooses FedMGDA+'s coefficients."""

  epsilon: float = declared.value(
    0.1, "How far lambda_k may be from p_k.", minimum=0, maximum=1
  )
  normalize: bool = declared.value(
    True, "Whether each update is divided by its norm."
  )

  geometry = types.Geometry.GRAM

  @property
  def finds_least_norm(self) -> bool:
    """See the base class."""
    return self.epsilon == 1 and not self.normalize

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProximalTerm(declared.Hyperparameters):
  """The setting of FedProx's proximal term at the clients, by default 0."""

  mu: float = declared.value(
    0.0,
    "Weight of the clients' proximal term; above 0 it is MGDA-Prox.",
    minimum=0,
    in_float32=True,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MgdaProxTerm(ProximalTerm):
  """The setting of the proximal term, with MGDA-Prox's default weight."""

  mu: float = declared.value(
    0.1, "Weight of the clients' proximal term.", minimum=0, in_float32=True
  )


@building.builder(FedMgdaPlusRule, ProximalTerm)
def build_fedmgda_plus(
  model_fn: rounds.ModelFn,
  rule: FedMgdaPlusRule,
  proximal: ProximalTerm,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds FedMGDA+."""
  return rounds.compose(
    model_fn, rule, **rounds.with_proximal_term(options, proximal.mu)
  )


@building.builder(FedMgdaPlusRule, MgdaProxTerm, fixed={"normalize": True})
def build_mgda_prox(
  model_fn: rounds.ModelFn,
  rule: FedMgdaPlusRule,
  proximal: MgdaProxTerm,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds MGDA-Prox: FedMGDA+ with a proximal term at the clients."""
  return rounds.compose(
    model_fn, rule, **rounds.with_proximal_term(options, proximal.mu)
  )


build_fedmgda = building.rule_builder(
  FedMgdaPlusRule, "fedmgda", fixed={"epsilon": 1.0, "normalize": False}
)


@summing.factory_of(FedMgdaPlusRule)
class FedMgdaPlusFactory(summing.RuleFactory):
  """Sums client updates with FedMGDA+'s coefficients."""
