"""FedAvg: the mean of the updates, weighted by examples.

McMahan et al. (AISTATS 2017); the rule is `tff_fair.rules.fedavg`.
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import fedavg


def build_fedavg(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds FedAvg.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  return composition.compose(
    model_fn,
    fedavg.FedAvgRule(),
    client_optimizer=client_optimizer,
    **options,
  )
