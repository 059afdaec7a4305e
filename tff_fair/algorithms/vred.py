"""VRed: variance reduction.

Malekmohammadi et al.; the rule is `tff_fair.rules.vred`.
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import vred


def build_vred(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  beta: float = vred.VRedRule.beta,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds VRed.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    beta: Weight of the variance, 0 or more; 0 recovers FedAvg.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  return composition.compose(
    model_fn,
    vred.VRedRule(beta=beta),
    client_optimizer=client_optimizer,
    **options,
  )
