"""FedAvg-n: the mean of normalized updates.

Hu et al. (FedMGDA+, its setting epsilon = 0); the rule is
`tff_fair.rules.fedavg_n`.
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import fedavg_n


def build_fedavg_n(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds FedAvg-n.

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
    fedavg_n.FedAvgNRule(),
    client_optimizer=client_optimizer,
    **options,
  )
