"""N-AccAdam: Adam at the server, on the accumulated gradients of the clients.

Ju, Zhang, Toor, Hellander, "Accelerating Fair Federated Learning: Adaptive
Federated Adam" (IEEE Transactions on Machine Learning in Communications and
Networking, 2024), Section 4.2 and Algorithm 3.

  Delta_t = (x_t - SGD(x_t, eta, N)) / eta,  hence  c_k = p_k / eta

and Adam's step along Delta_t: that of `tff_fair.finalizers.build_certain_adam`,
with a certainty of one.

Choice made here: the paper's N steps are those of one machine, and its FedAdam
is the same step along the mean update of clients with the same data. So the
mean of the clients' accumulated gradients stands for them. Against `fedadam` it
divides by eta, and adds epsilon where the paper's algorithm does.
"""

import collections
import dataclasses
import functools
from typing import Unpack

import tensorflow as tf

from tff_fair import finalizers, rounds, types
from tff_fair.methods import building


@dataclasses.dataclass(frozen=True, kw_only=True)
class NAccAdamRule(types.SeparableRule):
  """Coefficients c_k = p_k / eta, with the step of Adam itself."""

  signals = ("learning_rate",)

  def coefficients(
    self, cohort: types.Cohort, state: tuple[()]
  ) -> types.RuleOutput:
    """See the base class."""
    return types.RuleOutput(
      tf.math.divide_no_nan(cohort.weight, cohort.learning_rate),
      state,
      for_finalizer=_of_adam(),
    )

  def log_weight(self, cohort: types.Cohort) -> tf.Tensor:
    """See the base class."""
    return tf.math.log(
      tf.math.divide_no_nan(cohort.weight, cohort.learning_rate)
    )

  def from_sums(self, sums: types.Sums) -> types.SumsOutput:
    """See the base class."""
    return types.SumsOutput(
      tf.math.reciprocal_no_nan(sums.weight), for_finalizer=_of_adam()
    )


def _of_adam() -> dict[str, tf.Tensor]:
  return collections.OrderedDict(certainty=tf.ones([], tf.float64))


@building.builder(NAccAdamRule, finalizers.CertainAdamSettings)
def build_n_accadam(
  model_fn: rounds.ModelFn,
  rule: NAccAdamRule,
  adam: finalizers.CertainAdamSettings,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds N-AccAdam."""
  return rounds.compose(
    model_fn,
    rule,
    finalizer=functools.partial(finalizers.build_certain_adam, adam),
    **options,
  )
