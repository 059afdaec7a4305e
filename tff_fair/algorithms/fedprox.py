"""FedProx: FedAvg with a proximal term at the clients.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in
Heterogeneous Networks" (MLSys 2020).

  local loss + mu/2 ||w - theta||^2, then c_k = p_k
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import fedavg


def build_fedprox(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  mu: float = 0.01,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds FedProx.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    mu: Weight of the proximal term, 0 or more; 0 recovers FedAvg.
    **options: Options that hold for every method.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value.
  """
  return composition.compose(
    model_fn,
    fedavg.FedAvgRule(),
    client_optimizer=client_optimizer,
    **composition.with_proximal_term(options, mu),
  )
