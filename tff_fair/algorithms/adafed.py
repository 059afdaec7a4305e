"""AdaFed: adaptive common descent direction.

Hamidi, Yang (TMLR 2024); the rule is `tff_fair.rules.adafed`.
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import adafed


def build_adafed(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  gamma: float = adafed.AdaFedRule.gamma,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds AdaFed.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    gamma: How much steeper the direction is for larger losses, 0 or more.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  return composition.compose(
    model_fn,
    adafed.AdaFedRule(gamma=gamma),
    client_optimizer=client_optimizer,
    **options,
  )
