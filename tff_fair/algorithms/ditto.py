"""Ditto: a global model by FedAvg, and a personal one for each client.

Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through
Personalization" (ICML 2021); the personal models are trained by
`tff_fair.client_works.build_personal_training`, and evaluated by
`tff_fair.evaluation.build_personal_evaluation`.
"""

from typing import Unpack

import tensorflow_federated as tff

from tff_fair.algorithms import composition
from tff_fair.rules import fedavg


def build_ditto(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  lam: float = 0.1,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds Ditto.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    lam: Pull of the personal models towards the global one, 0 or more.
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
    personal_lam=lam,
    **options,
  )
