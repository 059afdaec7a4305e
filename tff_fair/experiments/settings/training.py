"""The settings of the clients' local steps and the server's."""

import dataclasses
import math
from typing import Literal

from tff_fair import declared
from tff_fair.experiments.settings import bounds

OptimizerName = Literal[
  "sgd",
  "momentum",
  "nesterov",
  "adagrad",
  "adam",
  "adamw",
  "amsgrad",
  "rmsprop",
  "yogi",
]
DecayKind = Literal["exponential", "inverse_time"]

WITH_MOMENTUM = ("momentum", "nesterov")
MOMENTUM = 0.9  # Where there is one and none is given.
_LARGEST_INT32 = 2**31 - 1  # Places of examples are counted in int32.

_MOMENTUM_OF = (
  f"with the optimizer momentum or nesterov, in [0, 1). By default {MOMENTUM}."
)
_A_MOMENTUM: declared.Bounds = {
  "expects": "a number in [0, 1)",
  "is_valid": lambda value: 0 <= declared.as_float32(value) < 1,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
  """Training: the clients' local steps and the server's."""

  client_optimizer: OptimizerName = declared.value(
    "sgd", "Local optimizer, started anew each round."
  )
  client_momentum: float | None = declared.value(
    None, f"Momentum of local training {_MOMENTUM_OF}", **_A_MOMENTUM
  )
  client_momentum_kept: bool = declared.value(
    False,
    "Each client goes on with the momentum of its last round; by default its "
    "momentum starts at zero in each round.",
  )
  client_learning_rate: float = bounds.positive_number(
    0.1, "Learning rate of local training."
  )
  batch_size: int = declared.value(
    16,
    "Examples in a local minibatch.",
    expects=f"an integer in [1, {_LARGEST_INT32}]",
    is_valid=lambda value: 1 <= value <= _LARGEST_INT32,
  )
  local_epochs: int | str = declared.value(
    1,
    "How often a client runs over its data in a round; or a range as 1-5, from "
    "which each client draws anew in each round, as devices of unequal speed "
    "would.",
    **bounds.A_RANGE,
  )
  local_steps: int | str | None = declared.value(
    None,
    "How many minibatches a client trains on in a round, in the place of "
    "epochs; or a range as 1-5, from which each client draws. Beyond one run "
    "over its data it begins the next, in a new order. By default epochs "
    "count.",
    **bounds.A_RANGE,
  )
  proximal_mu: float = declared.value(
    0.0,
    "Weight mu of the proximal term mu/2 ||w - theta||^2 in each client's "
    "loss, which holds it near the server, for any method; 0 adds none. "
    "FedProx has its own, the hyperparameter mu.",
    expects="a number in [0, inf) (in float32)",
    is_valid=lambda value: 0 <= declared.as_float32(value) < math.inf,
  )
  client_learning_rate_decay: float | None = declared.value(
    None,
    "Factor of the client learning rate from one round to the next, in (0, 1]; "
    "or r, where round t = 0, 1, ... divides the rate by 1 + r t. By default "
    "the rate stays.",
  )
  client_learning_rate_decay_kind: DecayKind = declared.value(
    "exponential", "Whether the decay is a factor (exponential) or r."
  )
  client_learning_rate_decay_rounds: int = bounds.positive_integer(
    1, "In how many rounds the client learning rate decays once."
  )
  server_optimizer: OptimizerName | None = declared.value(
    None,
    "Applies the direction of a round. By default sgd, or the method's own "
    "server step.",
  )
  server_momentum: float | None = declared.value(
    None, f"Momentum of the server {_MOMENTUM_OF}", **_A_MOMENTUM
  )
  server_learning_rate: float | None = bounds.positive_number(
    None,
    "Learning rate of the server. By default 1, or the method's own; of a "
    "method with a server step of its own it is the hyperparameter "
    "learning_rate.",
  )
  server_learning_rate_decay: float | None = declared.value(
    None,
    "As that of the client learning rate, a factor in (0, 1] or r; rounds t "
    "are those in which the server took a step. By default the rate stays.",
  )
  server_learning_rate_decay_kind: DecayKind | None = declared.value(
    None,
    "Whether the decay is a factor or r. By default exponential, a factor.",
  )
  initial_model: str | None = declared.value(
    None,
    "A trained Keras model (a .keras or .h5 file, or the folder of a "
    "SavedModel) with whose weights training begins, in the place of those "
    "that the seed draws. Its layers with weights are those of the run's "
    "model.",
  )
  initial_run: str | None = declared.value(
    None, "The folder of a finished run with whose weights training begins."
  )
