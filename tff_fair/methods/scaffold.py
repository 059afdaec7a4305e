"""SCAFFOLD: FedAvg whose clients correct the drift of their steps.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, "SCAFFOLD: Stochastic Controlled
Averaging for Federated Learning" (ICML 2020), option II.

  w <- w - eta (g(w) - c_k + c) at the clients, then FedAvg's mean

`tff_fair.client_works.control_variates` implements the control variates c_k and
c. With any other method, the option `local_correction="scaffold"` corrects
steps in the same way.
"""

from typing import Unpack

from tff_fair import rounds
from tff_fair.methods import building, fedavg


@building.builder(fedavg.FedAvgRule)
def build_scaffold(
  model_fn: rounds.ModelFn,
  rule: fedavg.FedAvgRule,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds SCAFFOLD."""
  options["local_correction"] = "scaffold"
  return rounds.compose(model_fn, rule, **options)
