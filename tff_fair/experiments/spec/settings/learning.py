"""The settings of the task, the method, and the steps of clients and server."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Literal

from tasks.models import names as model_names
from tff_fair import declared
from tff_fair.declared import Value
from tff_fair.experiments.spec.settings import bounds

# The settings of the task and of the method.


# The hyperparameter for the server's learning rate, in methods that have their
# own server step.
SERVER_RATE = "learning_rate"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSettings:
  """Task: data and model."""

  task: str = declared.value(
    "digits",
    "Name of the task (--list shows all), or your function that returns a "
    "task, path/to/file.py:FUNCTION or PACKAGE.MODULE:FUNCTION.",
    expects="a text; give its name, or FILE.py:FUNCTION",
  )
  data_dir: str | None = declared.value(
    None,
    "Folder of the task's data files. By default the usual folder of the "
    "task's loader; digits needs no files.",
  )
  model: str | None = declared.value(
    None,
    "Another model for the task: one of "
    f"{', '.join(model_names.ALL)}; or your function that returns a Keras "
    "model, path/to/file.py:FUNCTION or PACKAGE.MODULE:FUNCTION. By default "
    "the task's own model.",
    expects="a text or none; give its name, or FILE.py:FUNCTION",
  )
  task_options: Mapping[str, Value] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlgorithmSettings:
  """Algorithm: the method, and how the server weights and sums clients."""

  algorithm: str = declared.value(
    "adafed",
    "Name of the method (--list shows all), or your method, "
    "path/to/file.py:NAME or PACKAGE.MODULE:NAME.",
    expects="a text; give its name, as fedavg",
  )
  hparams: Mapping[str, Value] = dataclasses.field(default_factory=dict)
  client_weighting: Literal["num_examples", "uniform", "column"] = (
    declared.value(
      "num_examples",
      "The weight of a client. num_examples: its number of training examples; "
      "uniform: the same for all; column: the number in the column that the "
      "task option client_weight names.",
    )
  )
  loss_at: Literal["before", "training", "after"] = declared.value(
    "before",
    "When a client measures the loss that it reports: before local training, "
    "in an extra pass over its data; during training, at no cost; or after it.",
  )
  aggregation: Literal["streaming", "two_phase", "stacked", "secure"] | None = (
    declared.value(
      None,
      "How the server sums client updates; by default the cheapest way that "
      "the method allows. --list shows the ways of each method.",
    )
  )
  loss_reference: Literal["none", "local"] = declared.value(
    "none",
    "local: instead of a client's loss, the method uses its gap, the loss "
    "minus the training loss of the model that the client trains alone "
    "(--local_baseline). For vred, semi_vred, term, afl, delta_fl, gifair, "
    "maxfl and fedgini.",
  )
  personal_lam: float | None = declared.value(
    None,
    "Also train Ditto's personal model at each client, with any method; this "
    "factor pulls it towards the global model. Results then show the personal "
    "models, and the global one beside them. By default no personal models.",
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
MOMENTUM = 0.9  # The default momentum of optimizers that have one.

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
    "sgd", "Optimizer of local training; its state starts anew in each round."
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
    16, "Examples in a local minibatch.", minimum=1, maximum=bounds.LARGEST_INT
  )
  local_epochs: int | str = declared.value(
    1,
    "Number of passes over a client's data in a round; or a range such as 1-5, "
    "from which each client draws in each round, like devices of unequal "
    "speed.",
    **bounds.A_RANGE,
  )
  local_steps: int | str | None = declared.value(
    None,
    "Number of local steps in a round, one minibatch each, instead of "
    "--local_epochs; or a range such as 1-5, from which each client draws in "
    "each round. If its data end, it starts over in a new order. By default "
    "--local_epochs counts.",
    **bounds.A_RANGE,
  )
  proximal_mu: float = declared.value(
    0.0,
    "Weight mu of the proximal term mu/2 ||w - theta||^2 in each client's "
    "loss, which keeps its model near the server's, for any method. fedprox "
    "has the hyperparameter mu for the same term.",
    expects="a number in [0, inf) (in float32)",
    is_valid=lambda value: 0 <= declared.as_float32(value) < math.inf,
  )
  local_correction: Literal["none", "scaffold"] = declared.value(
    "none",
    "scaffold: control variates correct the clients' local steps for drift, "
    "with any method; the client optimizer must be sgd.",
  )
  client_learning_rate_decay: float | None = declared.value(
    None,
    "Factor by which the client learning rate decays from one round to the "
    "next, in (0, 1]; or, with the kind inverse_time, r: round t = 0, 1, ... "
    "divides the rate by 1 + r t. By default no decay.",
  )
  client_learning_rate_decay_kind: DecayKind = declared.value(
    "exponential",
    "Meaning of --client_learning_rate_decay: a factor (exponential), or r.",
  )
  client_learning_rate_decay_rounds: int = declared.positive_integer(
    1, "Number of rounds after which the client learning rate decays once."
  )
  server_optimizer: OptimizerName | None = declared.value(
    None,
    "Optimizer that applies the direction of a round to the model. By default "
    "sgd, or the method's own server step.",
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
    "Decay of the server learning rate, as --client_learning_rate_decay; "
    "rounds in which the server takes no step do not count. By default no "
    "decay.",
  )
  server_learning_rate_decay_kind: DecayKind | None = declared.value(
    None,
    "Meaning of --server_learning_rate_decay: a factor (exponential, the "
    "default), or r.",
  )
  initial_model: str | None = declared.value(
    None,
    "A trained Keras model (a .keras or .h5 file, or the folder of a "
    "SavedModel) from whose weights training starts. The shapes of the weights "
    "must be those of the run's model.",
    expects="the path of a file or folder",
    is_valid=bool,
  )
  initial_run: str | None = declared.value(
    None,
    "The folder of a finished run from whose weights training starts.",
    expects="the folder of a run",
    is_valid=bool,
  )
