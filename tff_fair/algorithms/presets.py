"""Named settings of other methods.

FedMGDA is FedMGDA+ on raw updates over the whole simplex (Desideri's MGDA, at
the server); MGDA-Prox is FedMGDA+ with FedProx's term at the clients. Both are
in Hu, Shaloudegi, Zhang, Yu, "Federated Learning Meets Multi-objective
Optimization".
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition, fedmgda_plus
from tff_fair.rules.fedmgda_plus import FedMgdaPlusRule


def build_fedmgda(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds FedMGDA: FedMGDA+ with `normalize=False, epsilon=1`.

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
  return fedmgda_plus.build_fedmgda_plus(
    model_fn,
    client_optimizer=client_optimizer,
    epsilon=1.0,
    normalize=False,
    **options,
  )


def build_mgda_prox(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  epsilon: float = FedMgdaPlusRule.epsilon,
  mu: float = 0.1,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds MGDA-Prox: FedMGDA+ with a proximal term at the clients.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    epsilon: How far lambda_k may be from p_k, in [0, 1].
    mu: Weight of the proximal term, 0 or more.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  return fedmgda_plus.build_fedmgda_plus(
    model_fn,
    client_optimizer=client_optimizer,
    epsilon=epsilon,
    mu=mu,
    **options,
  )
