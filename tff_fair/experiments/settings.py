"""The settings of a run, by group: names, types, defaults and meanings.

Nothing else declares them: `RunSpec` inherits these fields, and flags, TOML and
help texts are made from them.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

from tasks.models import names as model_names
from tff_fair import checks
from tff_fair.experiments import declared, number_range
from tff_fair.typed_values import Value

OptimizerName = Literal[
  "sgd",
  "momentum",
  "nesterov",
  "adagrad",
  "adam",
  "adamw",
  "rmsprop",
  "yogi",
]
DecayKind = Literal["exponential", "inverse_time"]

WITH_MOMENTUM = ("momentum", "nesterov")
MOMENTUM = 0.9  # Where there is one and none is given.
# The hyperparameter of methods that have a server step of their own.
SERVER_RATE = "learning_rate"
USUAL_COHORT = 10
USUAL_PART = 32  # As `tff_fair.runtime` has it, which imports TensorFlow.
USUAL_INTERVAL = 10  # In rounds, from one evaluation to the next.
LEAST_EVALUATIONS = 5
_LARGEST_INT32 = 2**31 - 1  # Places of examples are counted in int32.

_MOMENTUM_OF = (
  f"with the optimizer momentum or nesterov, in [0, 1). By default {MOMENTUM}."
)
_A_MOMENTUM: declared.Bounds = {
  "expects": "a number in [0, 1)",
  "is_valid": lambda value: 0 <= checks.as_float32(value) < 1,
}
_A_RANGE: declared.Bounds = {
  "expects": number_range.EXPECTED,
  "is_valid": number_range.is_valid,
}
_A_SEED: declared.Bounds = {
  "expects": "a non-negative integer",
  "is_valid": lambda value: value >= 0,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSettings:
  """Task: data and model."""

  task: str = declared.value(
    "digits",
    "Name of the task; --list shows all. Or a function of yours that returns a "
    "task, as path/to/file.py:function or PACKAGE.MODULE:function.",
  )
  data_dir: str | None = declared.value(
    None,
    "Directory of the task's data files. By default the task's loader keeps "
    "them where it always does; `digits` needs none.",
  )
  model: str | None = declared.value(
    None,
    "Another model for the task: one of "
    f"{', '.join(model_names.ALL)}; or a function of yours that returns a "
    "Keras model, named as a task's function. By default the task's own.",
  )
  task_options: Mapping[str, Value] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlgorithmSettings:
  """Algorithm: the method, and how it sees and sums the clients."""

  algorithm: str = declared.value(
    "adafed", "Name of the method; --list shows all."
  )
  hparams: Mapping[str, Value] = dataclasses.field(default_factory=dict)
  client_weighting: Literal["num_examples", "uniform"] = declared.value(
    "num_examples",
    "The weight of a client: its training examples, or the same for all.",
  )
  loss_at: Literal["before", "training", "after"] = declared.value(
    "before",
    "Where a client takes its loss: before local training, in a pass of its "
    "own; during it, at no cost; or after it.",
  )
  aggregation: Literal["streaming", "two_phase", "stacked", "secure"] | None = (
    declared.value(
      None,
      "How the server sums client updates; by default the cheapest way that "
      "the method allows. --list shows all.",
    )
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
  """Training: the clients' local steps and the server's."""

  client_optimizer: OptimizerName = declared.value(
    "sgd", "Local optimizer, started anew each round."
  )
  client_momentum: float | None = declared.value(
    None, f"Momentum of local training {_MOMENTUM_OF}", **_A_MOMENTUM
  )
  client_learning_rate: float = declared.positive_number(
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
    **_A_RANGE,
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
  server_optimizer: OptimizerName | None = declared.value(
    None,
    "Applies the direction of a round. By default sgd, or the method's own "
    "server step.",
  )
  server_momentum: float | None = declared.value(
    None, f"Momentum of the server {_MOMENTUM_OF}", **_A_MOMENTUM
  )
  server_learning_rate: float | None = declared.positive_number(
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplingSettings:
  """Sampling: which clients take part in a round, and how many at a time."""

  sampling: Literal["uniform", "proportional", "all"] = declared.value(
    "uniform",
    "How a round draws its cohort, without replacement: uniform; "
    "proportional to training examples, one client after the other; or all "
    "clients in every round.",
  )
  clients_per_round: int | str | None = declared.value(
    None,
    "Size of the cohort, drawn anew each round; or a range as 5-15, from which "
    f"each round draws its size. By default {USUAL_COHORT}, or all clients "
    "where there are fewer.",
    **_A_RANGE,
  )
  clients_per_part: int = declared.value(
    USUAL_PART,
    "Cohorts of more clients are computed in parts of so many; 0 computes each "
    "cohort as a whole. Parts bound the memory of a worker. Their size decides "
    "the last digits of results, the number of workers does not.",
    expects="0 or a positive integer",
    is_valid=lambda number: number >= 0,
  )
  dropout: float = declared.value(
    0.0,
    "Probability that a drawn client does not report back, in [0, 1). Where "
    "nobody would, one client of the cohort, drawn by lot, does.",
    expects="a number in [0, 1)",
    is_valid=lambda value: 0 <= value < 1,
  )
  dropout_kind: Literal["independent", "by_client"] = declared.value(
    "independent",
    "Whether clients drop out independently in each round, or by_client: each "
    "client has a probability of its own for the whole run, drawn uniformly "
    "from [0, 2p] for a --dropout p up to 1/2, from [2p - 1, 1] above.",
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopSettings:
  """Loop: rounds, checkpoints, and the seed."""

  total_rounds: int = declared.positive_integer(100, "Number of rounds.")
  rounds_per_evaluation: int | None = declared.positive_integer(
    None,
    "Every so many rounds, and before the first and after the last, the run "
    "evaluates the model on the clients' test data. By default "
    f"{USUAL_INTERVAL}. A run of few rounds evaluates {LEAST_EVALUATIONS} "
    "times at least: by default, and where this is more than all its rounds.",
  )
  rounds_per_checkpoint: int = declared.positive_integer(
    10,
    "Every so many rounds, and whenever it ends by itself, the run saves its "
    "state, to go on from there.",
    decides=False,
  )
  seed: int = declared.value(
    0,
    "Seed of the task, the initial weights, the cohorts, the local order of "
    "examples and all other draws. The same settings with the same seed give "
    "the same results.",
    **_A_SEED,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
  """Evaluation: of whom, and what follows from it."""

  evaluation_clients: int | None = declared.positive_integer(
    None,
    "How many clients the run evaluates, drawn once, the same in all "
    "evaluations and in the results at the end. By default all.",
  )
  criterion: Literal["mean", "worst_10"] | None = declared.value(
    None,
    "Keep the state at the evaluation with the largest mean accuracy over "
    "clients, or mean over the worst 10 %, in best_checkpoint; of a "
    "regression, with the smallest error. By default the run keeps its last "
    "state alone.",
  )
  patience: int | None = declared.positive_integer(
    None,
    "End the run after so many evaluations in a row that did not improve the "
    "--criterion. By default it goes on to the last round.",
  )
  measure_improvement: bool = declared.value(
    False,
    "Evaluate the model on the cohort's training data before and after each "
    "round: improved_share in metrics.csv is the share of clients whose loss "
    "did not rise, cohorts.csv has their losses.",
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttackSettings:
  """Attack: a study of clients that report something else than they found."""

  attack: Literal["none", "bias", "scaling"] = declared.value(
    "none",
    "What attackers do, a seeded subset of the clients: bias adds a constant "
    "to the losses they report, scaling multiplies their updates. Results are "
    "there for the honest clients alone, too.",
  )
  attack_share: float = declared.value(
    0.1,
    "Share of the clients that attack, in (0, 1); one client at least, and one "
    "remains honest.",
    expects="a number in (0, 1)",
    is_valid=lambda value: 0 < value < 1,
  )
  attack_strength: float | None = declared.value(
    None,
    "What bias adds, 0 or more; what scaling multiplies with, below 0 to turn "
    "updates round.",
    expects="a finite number or none (in float32)",
    is_valid=lambda value: math.isfinite(checks.as_float32(value)),
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DefenceSettings:
  """Defence: what the server does against updates out of the ordinary."""

  defence: Literal["none", "zeroing", "clipping", "trimmed_mean", "median"] = (
    declared.value(
      "none",
      "Zeroing drops an update with an entry beyond a bound, clipping shortens "
      "one with a norm beyond a bound; the bounds follow the updates. "
      "trimmed_mean and median sum coordinate by coordinate without the least "
      "and the greatest values, for methods that can be summed in two_phase.",
    )
  )
  trimmed_share: float = declared.value(
    0.2,
    "Share of a cohort that trimmed_mean leaves out at each end, in (0, 1/2).",
    expects="a number in (0, 1/2)",
    is_valid=lambda value: 0 < value < 0.5,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacySettings:
  """Privacy: what a client may add to a sum, and noise on it."""

  secure_bound: float | None = declared.positive_number(
    None,
    "With --aggregation=secure, the largest value in what a client adds to the "
    "sum of updates, its weight included; the round leaves out a client beyond "
    "it. By default 1024.",
  )
  dp_noise: float | None = declared.positive_number(
    None,
    "Differential privacy: the standard deviation of the noise on a round's "
    "sum, in units of --dp_clip. The run tells its epsilon. Goes with methods "
    "whose coefficients depend on no other client, as fedavg, and with "
    "--client_weighting=uniform. By default no noise.",
  )
  dp_clip: float | None = declared.positive_number(
    None, "With --dp_noise, the largest norm of what a client adds to the sum."
  )


def part_size(clients_per_part: int, largest_cohort: int | None) -> int:
  """Returns the size of the parts of a run's cohorts.

  Args:
    clients_per_part: As the setting has it.
    largest_cohort: The most clients of a round, if it is known.

  Returns:
    The size; 0 if every cohort is one part.
  """
  if largest_cohort is not None and largest_cohort <= clients_per_part:
    return 0
  return clients_per_part


GROUPS: tuple[type[Any], ...] = (
  TaskSettings,
  AlgorithmSettings,
  TrainingSettings,
  SamplingSettings,
  LoopSettings,
  EvaluationSettings,
  AttackSettings,
  DefenceSettings,
  PrivacySettings,
)
