"""Ditto: a global model by FedAvg, and a personal model for each client.

Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through
Personalization" (ICML 2021).

  v_k <- argmin F_k(v) + lam/2 ||v - theta||^2, besides FedAvg's theta

F_k is client k's loss. `tff_fair.client_works.client_state` trains the personal
models v_k, and `tff_fair.evaluation.build_personal_evaluation` evaluates them.
With any other method, the option `personal_lam` trains personal models, too.
"""

import dataclasses
from typing import Unpack

from tff_fair import declared, rounds
from tff_fair.methods import building, fedavg


@dataclasses.dataclass(frozen=True, kw_only=True)
class Personalization(declared.Hyperparameters):
  """The settings of the personal models' training."""

  lam: float = declared.value(
    0.1,
    "Pull of the personal models towards the global one.",
    minimum=0,
    in_float32=True,
  )


@building.builder(fedavg.FedAvgRule, Personalization)
def build_ditto(
  model_fn: rounds.ModelFn,
  rule: fedavg.FedAvgRule,
  personalization: Personalization,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds Ditto."""
  if options.get("personal_lam") is not None:
    raise declared.FieldError(
      "personal_lam",
      "Ditto trains personal models already, with its hyperparameter lam: "
      "leave personal_lam out, and set lam.",
    )
  options["personal_lam"] = personalization.lam
  return rounds.compose(model_fn, rule, **options)
