"""FedAdam: FedAvg with Adam at the server.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive
Federated Optimization" (ICLR 2021). FedYogi and FedAdagrad are FedAvg with
`tff.learning.optimizers.build_yogi` or `build_adagrad` as `server_optimizer`.
"""

import functools
from typing import Unpack

import tensorflow_federated as tff

from tff_fair import finalizers, rounds
from tff_fair.methods import building, fedavg


@building.builder(fedavg.FedAvgRule, finalizers.CertainAdamSettings)
def build_fedadam(
  model_fn: rounds.ModelFn,
  rule: fedavg.FedAvgRule,
  settings: finalizers.CertainAdamSettings,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds FedAdam."""
  adam = tff.learning.optimizers.build_adam(
    learning_rate=settings.learning_rate,
    beta_1=settings.beta1,
    beta_2=settings.beta2,
    epsilon=settings.epsilon,
  )
  return rounds.compose(
    model_fn,
    rule,
    finalizer=functools.partial(finalizers.build_apply_direction, adam),
    **options,
  )
