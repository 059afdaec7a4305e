"""FedFV: federated fair averaging.

Wang, Fan, Qi, Wen, Wang, Yu (IJCAI 2021); the rule is
`tff_fair.rules.fedfv`.
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import fedfv


def build_fedfv(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  alpha: float = fedfv.FedFvRule.alpha,
  tau: int = fedfv.FedFvRule.tau,
  order: str = fedfv.FedFvRule.order,
  seed: int = fedfv.FedFvRule.seed,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds FedFV.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    alpha: Share of largest losses that are not projected, in [0, 1].
    tau: Rounds an update is remembered for, 0 or more.
    order: Of the projections: "loss", "reverse" or "random".
    seed: Of the random order.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  return composition.compose(
    model_fn,
    fedfv.FedFvRule(alpha=alpha, tau=tau, order=order, seed=seed),
    client_optimizer=client_optimizer,
    **options,
  )
