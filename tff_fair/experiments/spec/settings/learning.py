"""The settings of the clients' local steps and the server's."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Literal

from tasks.models import names as model_names
from tff_fair import declared
from tff_fair.declared import Value
from tff_fair.experiments.spec.settings import bounds

# The settings of the task and of the method.


# The hyperparameter of methods that have a server step of their own.
SERVER_RATE = "learning_rate"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSettings:
  """Task: data and model."""

  task: str = declared.value(
    "digits",
    "Name of the task; --list shows all. Or a function of yours that returns a "
    "task, as path/to/file.py:function or PACKAGE.MODULE:function.",
    expects="a text; give its name, or FILE.py:FUNCTION",
  )
  data_dir: str | None = declared.value(
    None,
    "Directory of the task's data files. By default the usual place of the "
    "task's loader; `digits` needs no files.",
  )
  model: str | None = declared.value(
    None,
    "Another model for the task: one of "
    f"{', '.join(model_names.ALL)}; or a function of yours that returns a "
    "Keras model, named as a task's function. By default the task's own.",
    expects="a text or none; give its name, or FILE.py:FUNCTION",
  )
  task_options: Mapping[str, Value] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlgorithmSettings:
  """Algorithm: the method, and how it sees and sums the clients."""

  algorithm: str = declared.value(
    "adafed",
    "Name of the method; --list shows all.",
    expects="a text; give its name, as fedavg",
  )
  hparams: Mapping[str, Value] = dataclasses.field(default_factory=dict)
  client_weighting: Literal["num_examples", "uniform", "column"] = (
    declared.value(
      "num_examples",
      "The weight of a client: its number of training examples; the same for "
      "all; or the number in the column that the task option client_weight "
      "names.",
    )
  )
  loss_at: Literal["before", "training", "after"] = declared.value(
    "before",
    "When a client measures its loss: before local training, in an extra pass; "
    "during it, at no cost; or after it.",
  )
  aggregation: Literal["streaming", "two_phase", "stacked", "secure"] | None = (
    declared.value(
      None,
      "How the server sums client updates; by default the cheapest way that "
      "the method allows. --list shows all.",
    )
  )
  loss_reference: Literal["none", "local"] = declared.value(
    "none",
    "With local, vred, semi_vred, term, afl, delta_fl and gifair compare gaps: "
    "a client's loss minus the training loss of the model that it trains alone "
    "(--local_baseline).",
  )
  personal_lam: float | None = declared.value(
    None,
    "Trains one of Ditto's personal models at each client, beside the global "
    "model of any method; this factor pulls it towards the global one. Results "
    "then show the personal models, and the global one beside them. By default "
    "no personal models.",
    expects="0 or a positive number (in float32)",
    is_valid=lambda value: 0 <= declared.as_float32(value) < math.inf,
  )


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
class LocalTrainingSettings:
  """Training: the clients' local steps and the server's."""

  client_optimizer: OptimizerName = declared.value(
    "sgd", "Local optimizer; it starts anew in each round."
  )
  client_momentum: float | None = declared.value(
    None, f"Momentum of local training {_MOMENTUM_OF}", **_A_MOMENTUM
  )
  client_momentum_kept: bool = declared.value(
    False,
    "Each client continues with the momentum of its last round; by default its "
    "momentum starts at zero in each round.",
  )
  client_learning_rate: float = declared.positive_number(
    0.1, "Learning rate of local training."
  )
  batch_size: int = declared.value(
    16, "Examples in a local minibatch.", minimum=1, maximum=_LARGEST_INT32
  )
  local_epochs: int | str = declared.value(
    1,
    "How often a client passes over its data in a round; or a range as 1-5, "
    "from which each client draws in each round, as devices of unequal speed "
    "would.",
    **bounds.A_RANGE,
  )
  local_steps: int | str | None = declared.value(
    None,
    "How many minibatches a client trains on in a round, instead of epochs; or "
    "a range as 1-5, from which each client draws. If its data end, it starts "
    "over in a new order. By default epochs count.",
    **bounds.A_RANGE,
  )
  proximal_mu: float = declared.value(
    0.0,
    "Weight mu of the proximal term mu/2 ||w - theta||^2 in each client's "
    "loss, which keeps its model near the server's, for any method. FedProx "
    "has the hyperparameter mu for the same term.",
    expects="a number in [0, inf) (in float32)",
    is_valid=lambda value: 0 <= declared.as_float32(value) < math.inf,
  )
  local_correction: Literal["none", "scaffold"] = declared.value(
    "none",
    "With scaffold, control variates correct the clients' local steps for "
    "drift, with any method; the client optimizer must be sgd.",
  )
  client_learning_rate_decay: float | None = declared.value(
    None,
    "Factor of the client learning rate from one round to the next, in (0, 1]; "
    "or, with the kind inverse_time, r: round t = 0, 1, ... divides the rate "
    "by 1 + r t. By default no decay.",
  )
  client_learning_rate_decay_kind: DecayKind = declared.value(
    "exponential", "Whether the decay is a factor (exponential) or r."
  )
  client_learning_rate_decay_rounds: int = declared.positive_integer(
    1, "Number of rounds after which the client learning rate decays once."
  )
  server_optimizer: OptimizerName | None = declared.value(
    None,
    "Applies the direction of a round to the model. By default sgd, or the "
    "method's own server step.",
  )
  server_momentum: float | None = declared.value(
    None, f"Momentum of the server {_MOMENTUM_OF}", **_A_MOMENTUM
  )
  server_learning_rate: float | None = declared.positive_number(
    None,
    "Learning rate of the server. By default 1; for a method with its own "
    "server step it is the hyperparameter learning_rate.",
  )
  server_learning_rate_decay: float | None = declared.value(
    None,
    "Decay of the server learning rate, as that of the clients; rounds in "
    "which the server takes no step do not count. By default no decay.",
  )
  server_learning_rate_decay_kind: DecayKind | None = declared.value(
    None,
    "Whether the decay is a factor or r. By default exponential, a factor.",
  )
  initial_model: str | None = declared.value(
    None,
    "A trained Keras model (a .keras or .h5 file, or the folder of a "
    "SavedModel) whose weights training starts from. Its layers with weights "
    "must be those of the run's model.",
    expects="the path of a file or folder",
    is_valid=bool,
  )
  initial_run: str | None = declared.value(
    None,
    "The folder of a finished run whose weights training starts from.",
    expects="the folder of a run",
    is_valid=bool,
  )
