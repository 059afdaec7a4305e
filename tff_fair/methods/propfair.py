"""PropFair: proportional fairness.

Zhang, Malekmohammadi, Chen, Yu, "Proportional Fairness in Federated Learning"
(TMLR 2023).

  per minibatch, loss -> -log(1 - loss/M) where M - loss >= 0.2, else loss/M
  then c_k = p_k as in FedAvg
"""

import dataclasses
from typing import Unpack

import tensorflow as tf

from tff_fair import declared, rounds
from tff_fair.methods import building, fedavg

# Below this utility, the logarithm is too steep, so the loss is linear.
_LEAST_UTILITY = 0.2


def proportional_loss(loss: tf.Tensor, m: float) -> tf.Tensor:
  """Returns -log(1 - loss/M), or loss/M where M - loss < 0.2."""
  utility = m - loss
  large = utility >= _LEAST_UTILITY
  # Both branches are differentiated, so the logarithm must be finite even where
  # the linear branch is selected.
  safe = tf.where(large, utility, tf.ones_like(utility))
  return tf.where(large, -tf.math.log(safe / m), loss / m)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Utility(declared.Hyperparameters):
  """The setting of the utility of a client, M - loss."""

  m: float = declared.value(
    5.0,
    "M, the baseline of the utilities M - loss.",
    minimum=0,
    exclude_minimum=True,
    in_float32=True,
  )


@building.builder(fedavg.FedAvgRule, Utility)
def build_propfair(
  model_fn: rounds.ModelFn,
  rule: fedavg.FedAvgRule,
  utility: Utility,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds PropFair."""
  return rounds.compose(
    model_fn,
    rule,
    objective=lambda loss: proportional_loss(loss, utility.m),
    **options,
  )
