"""Delta-FL: superquantile federated learning.

Pillutla, Laguel, Malick, Harchaoui (2023); the rule is
`tff_fair.rules.delta_fl`.
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import delta_fl


def build_delta_fl(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  alpha: float = delta_fl.DeltaFlRule.alpha,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds Delta-FL.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    alpha: Share of the clients that counts, in (0, 1]; 1 recovers FedAvg.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  return composition.compose(
    model_fn,
    delta_fl.DeltaFlRule(alpha=alpha),
    client_optimizer=client_optimizer,
    **options,
  )
