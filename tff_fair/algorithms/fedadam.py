"""FedAdam: FedAvg with Adam at the server.

Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan, "Adaptive
Federated Optimization" (ICLR 2021). FedYogi and FedAdagrad are FedAvg with
`tff.learning.optimizers.build_yogi` or `build_adagrad` as `server_optimizer`.
"""

import functools
from typing import Unpack

import tensorflow_federated as tff

from tff_fair import finalizers
from tff_fair.algorithms import composition
from tff_fair.rules import fedavg


def build_fedadam(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  learning_rate: float = 0.001,
  beta1: float = 0.9,
  beta2: float = 0.999,
  epsilon: float = 1e-8,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds FedAdam.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    learning_rate: Of Adam at the server, above 0.
    beta1: Decay of the first moment, in [0, 1).
    beta2: Decay of the second moment, in [0, 1).
    epsilon: Added to the root of the second moment, above 0.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  # Checked here, because TFF names and bounds them differently.
  finalizers.CertainAdamSettings(
    learning_rate=learning_rate, beta1=beta1, beta2=beta2, epsilon=epsilon
  )
  adam = tff.learning.optimizers.build_adam(
    learning_rate=learning_rate, beta_1=beta1, beta_2=beta2, epsilon=epsilon
  )
  return composition.compose(
    model_fn,
    fedavg.FedAvgRule(),
    client_optimizer=client_optimizer,
    finalizer=functools.partial(finalizers.build_apply_direction, adam),
    **options,
  )
