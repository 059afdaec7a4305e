"""FedNova: normalized averaging of unequal local work.

Wang, Liu, Liang, Joshi, Poor (NeurIPS 2020); the rule is
`tff_fair.rules.fednova`.
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import fednova


def build_fednova(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds FedNova.

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
    fednova.FedNovaRule(),
    client_optimizer=client_optimizer,
    **options,
  )
