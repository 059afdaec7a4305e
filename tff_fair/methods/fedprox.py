"""FedProx: FedAvg with a proximal term at the clients.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith, "Federated Optimization in
Heterogeneous Networks" (MLSys 2020).

  local loss + mu/2 ||w - theta||^2, then c_k = p_k as in FedAvg
"""

import dataclasses
from typing import Unpack

from tff_fair import declared, rounds
from tff_fair.methods import building, fedavg


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProximalTerm(declared.Hyperparameters):
  """The setting of the term that keeps clients' weights near the server's."""

  mu: float = declared.value(
    0.01,
    "Weight of the proximal term; 0 recovers FedAvg.",
    minimum=0,
    in_float32=True,
  )


@building.builder(fedavg.FedAvgRule, ProximalTerm)
def build_fedprox(
  model_fn: rounds.ModelFn,
  rule: fedavg.FedAvgRule,
  proximal: ProximalTerm,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds FedProx."""
  return rounds.compose(
    model_fn, rule, **rounds.with_proximal_term(options, proximal.mu)
  )
