"""GiFair-FL: weights by the rank of the loss.

Yue, Nouiehed, Al Kontar (2023); the rule is `tff_fair.rules.gifair`.
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import gifair


def build_gifair(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  fraction: float = gifair.GiFairRule.fraction,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds GiFair-FL.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    fraction: Of the largest penalty allowed, in [0, 1); 0 recovers FedAvg.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  return composition.compose(
    model_fn,
    gifair.GiFairRule(fraction=fraction),
    client_optimizer=client_optimizer,
    **options,
  )
