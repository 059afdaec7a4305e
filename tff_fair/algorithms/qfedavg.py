"""q-FedAvg: q-fair federated learning.

Li, Sanjabi, Beirami, Smith (ICLR 2020); the rule is
`tff_fair.rules.qfedavg`.
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import qfedavg


def build_qfedavg(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  q: float = qfedavg.QFedAvgRule.q,
  lipschitz: float | None = qfedavg.QFedAvgRule.lipschitz,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds q-FedAvg.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    q: Fairness, 0 or more; 0 recovers the unweighted mean.
    lipschitz: L, above 0; `None` is one over the client learning rate.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  return composition.compose(
    model_fn,
    qfedavg.QFedAvgRule(q=q, lipschitz=lipschitz),
    client_optimizer=client_optimizer,
    **options,
  )
