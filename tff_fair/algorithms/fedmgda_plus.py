"""FedMGDA+: federated multi-objective optimization.

Hu, Shaloudegi, Zhang, Yu; the rule is `tff_fair.rules.fedmgda_plus`.
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import fedmgda_plus


def build_fedmgda_plus(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  epsilon: float = fedmgda_plus.FedMgdaPlusRule.epsilon,
  normalize: bool = fedmgda_plus.FedMgdaPlusRule.normalize,
  mu: float = 0.0,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds FedMGDA+.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    epsilon: How far lambda_k may be from p_k, in [0, 1].
    normalize: Whether each update is divided by its norm.
    mu: Weight of the clients' proximal term, 0 or more; above 0 MGDA-Prox.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  return composition.compose(
    model_fn,
    fedmgda_plus.FedMgdaPlusRule(epsilon=epsilon, normalize=normalize),
    client_optimizer=client_optimizer,
    **composition.with_proximal_term(options, mu),
  )
