"""The settings of cohorts, rounds, evaluations, attacks and privacy."""

import dataclasses
import math
import typing
from collections.abc import Sequence
from typing import Literal

from tff_fair import declared
from tff_fair.experiments.spec.settings import bounds

USUAL_COHORT = 10
USUAL_PART = 32  # Copied from `tff_fair.runtime`, which imports TensorFlow.
USUAL_INTERVAL = 10  # The number of rounds from one evaluation to the next.
LEAST_EVALUATIONS = 5


def _is_joining(text: str) -> bool:
  who, _, round_num = text.rpartition(":")
  return bool(who) and round_num.isdecimal() and int(round_num) > 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class SamplingSettings:
  """Sampling: which clients take part in a round, and how many at a time."""

  sampling: Literal[
    "uniform", "proportional", "power_of_choice", "by_lambda", "all"
  ] = declared.value(
    "uniform",
    "How a round draws its cohort. uniform: without replacement; proportional: "
    "one client after the other, with probabilities proportional to their "
    "training examples; power_of_choice: of --sampling_candidates clients, "
    "drawn as with proportional, those with the largest last known loss; "
    "by_lambda: with replacement, by the weights that drfa learns (drfa always "
    "does so); all: all clients in every round.",
  )
  sampling_candidates: int | None = declared.positive_integer(
    None,
    "Number of candidates that --sampling=power_of_choice draws. By default "
    "twice the cohort, at most all clients.",
  )
  clients_per_round: int | str | None = declared.value(
    None,
    "Number of clients in a round; or a range such as 5-15, from which each "
    f"round draws its number. By default {USUAL_COHORT}, at most all clients.",
    **bounds.A_RANGE,
  )
  clients_per_part: int = declared.value(
    USUAL_PART,
    "Larger cohorts are computed in parts of this many clients, which bounds "
    "memory; 0 computes each cohort as a whole. The size of parts affects the "
    "last digits of results.",
    minimum=0,
  )
  dropout: float = declared.value(
    0.0,
    "Probability that a drawn client does not report back, in [0, 1). If all "
    "clients of a cohort would drop out, one of them, drawn at random, "
    "reports.",
    **declared.BELOW_1,
  )
  dropout_kind: Literal[
    "independent", "by_client", "by_size", "by_label", "blocks", "periodic"
  ] = declared.value(
    "independent",
    "How clients drop out, on average with the probability --dropout, p. "
    "independent: in each round anew; by_client: each client has one "
    "probability for the whole run, drawn uniformly from [0, 2p] for p up to "
    "1/2, from [2p - 1, 1] above; by_size: clients with fewer training "
    "examples drop out more often, with probabilities evenly spread over that "
    "interval; by_label: likewise, by the number of the most frequent label; "
    "blocks: each client is present or absent for --dropout_rounds; periodic: "
    "the probability goes up and down in that interval with the period "
    "--dropout_rounds, each client with its own phase.",
  )
  dropout_rounds: int = declared.positive_integer(
    10, "Rounds of a block or period of --dropout_kind."
  )
  unseen_clients: str | None = declared.value(
    None,
    "Clients that take no part in training but are evaluated: a share in (0, "
    "1), drawn at random, or their names, separated by commas. The results "
    "show what a client that joins later may expect. By default none.",
    expects="a share or names of clients, separated by commas",
    is_valid=lambda text: all(text.split(",")),
  )
  join_round: str | None = declared.value(
    None,
    "Clients that take part from some round on: NAME:20 or, for a share drawn "
    "at random, 0.3:20; several separated by commas. The results show what "
    "they and the others gain from then on. By default all clients begin in "
    "round 1.",
    expects="NAME:ROUND or SHARE:ROUND, separated by commas, ROUND 2 or more",
    is_valid=lambda text: all(map(_is_joining, text.split(","))),
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopSettings:
  """Loop: rounds, checkpoints, and the seeds."""

  total_rounds: int = declared.positive_integer(100, "Number of rounds.")
  rounds_per_evaluation: int | None = declared.positive_integer(
    None,
    "Number of rounds between two evaluations of the model on the clients' "
    "test data; the run also evaluates before the first round and after the "
    f"last. By default {USUAL_INTERVAL}, fewer in short runs, which have at "
    f"least {LEAST_EVALUATIONS} evaluations.",
  )
  rounds_per_checkpoint: int = declared.positive_integer(
    10,
    "Number of rounds between two saved states; the run also saves its state "
    "when it stops.",
    decides=False,
  )
  seed: int = declared.value(
    0,
    "Seed of the cohorts, the order of examples and all other draws; also of "
    "the data and the initial weights, unless you set --data_seed or "
    "--model_seed. The same settings with the same seed give the same results.",
    **bounds.A_SEED,
  )
  data_seed: int | None = declared.value(
    None,
    "Seed of the task's data: generated data, the partition over clients, the "
    "choice of clients and the test examples. By default --seed.",
    **bounds.A_SEED,
  )
  model_seed: int | None = declared.value(
    None,
    "Seed of the initial weights and of a model's dropout layers. By default "
    "--seed.",
    **bounds.A_SEED,
  )


ScoreName = Literal[
  "accuracy",
  "balanced_accuracy",
  "auc",
  "average_precision",
  "f1",
  "precision",
  "recall",
  "brier",
  "log_loss",
  "calibration_error",
  "rmse",
  "mae",
  "r2",
]
SCORES: tuple[str, ...] = typing.get_args(ScoreName)


def _are_scores(names: Sequence[str]) -> bool:
  return set(names) <= set(SCORES) and len(set(names)) == len(names)


@dataclasses.dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
  """Evaluation: clients, scores, and what evaluations decide."""

  evaluation_clients: int | None = declared.positive_integer(
    None,
    "Number of clients to evaluate. The run draws them once, for all "
    "evaluations and the results at the end. By default all.",
  )
  score: ScoreName | None = declared.value(
    None,
    "The score by which clients are compared, and by which runs, sweeps and "
    "searches choose. rmse, mae and r2 are for numeric labels, the others for "
    "classes. By default accuracy, or rmse for numeric labels.",
  )
  measures: str | None = declared.value(
    None,
    "Further scores that evaluations measure, such as auc,f1,recall. By "
    "default none; a regression has rmse and r2.",
    expects=f"some of {', '.join(SCORES)}, each once, separated by commas",
    is_valid=lambda text: _are_scores(text.split(",")),
  )
  score_class: str | None = declared.value(
    None,
    "The class, by name or number, to which precision, recall, f1, auc and "
    "average_precision refer. By default the rarer one of two; with more "
    "classes, the mean over the client's classes.",
  )
  threshold_for: Literal["accuracy", "balanced_accuracy", "f1"] | None = (
    declared.value(
      None,
      "With two classes, predict --score_class (by default the rarer one) if "
      "its probability reaches a threshold: the one that maximizes this score "
      "on training data. The results show the threshold, and exports use it. "
      "By default the model predicts the more probable class.",
      decides=False,
    )
  )
  validation_fraction: float | None = declared.value(
    None,
    "Share of each client's training examples, in [0, 1), that the run sets "
    "aside as validation data, on which --criterion, --patience, sweeps and "
    "searches choose. --data_seed draws them, stratified by class. A client "
    "with too few examples trains on all. By default 0.1 with --criterion, "
    "else 0.",
    **declared.BELOW_1,
  )
  criterion: Literal["mean", "worst_10"] | None = declared.value(
    None,
    "Keep the state with the best mean score over the clients, or over the "
    "worst 10 % of them, on validation data (--validation_fraction), in the "
    "folder best_checkpoint. By default the run keeps only its last state.",
  )
  patience: int | None = declared.positive_integer(
    None,
    "End the run after this many evaluations in a row without a better "
    "--criterion. By default the run takes all rounds.",
  )
  local_baseline: bool = declared.value(
    False,
    "Before the first round, also train a model for each client on only its "
    "own data, from the initial model, at 1/4, 1 or 4 times "
    "--client_learning_rate; cross-validation chooses the rate and the number "
    "of rounds. The results show who gains from joining.",
    decides=False,
  )
  pooled_baseline: bool = declared.value(
    False,
    "Before the first round, also train the model on the data of all clients "
    "in one place, as a bound to compare with.",
    decides=False,
  )
  finetune_epochs: int | None = declared.positive_integer(
    None,
    "After the last round, train the model further at each client, for up to "
    "this many local epochs; the loss on held-out training examples chooses "
    "the number. finetuned_SCORE in clients.csv is the score after that. By "
    "default no fine-tuning.",
    decides=False,
  )
  finetune_learning_rate: float | None = declared.positive_number(
    None,
    "Learning rate of --finetune_epochs. By default --client_learning_rate, "
    "with its decay.",
    decides=False,
  )
  measure_improvement: bool = declared.value(
    False,
    "Evaluate the model on the cohort's training data before and after each "
    "round: improved_share in metrics.csv is the share of clients whose loss "
    "did not rise; cohorts.csv has their losses.",
  )
  certificate: bool = declared.value(
    False,
    "Measure in each round how much all clients can still gain together "
    "(pareto_stationarity in metrics.csv), and which clients block a further "
    "gain. The server then sums in the stacked way. Geometric methods always "
    "measure it.",
  )
  stop_at_stationarity: float | None = declared.value(
    None,
    "End the run after the first round whose pareto_stationarity is this or "
    "less, in (0, 1). By default the run takes all rounds.",
    **declared.BETWEEN_0_AND_1,
  )
  tape: bool | Literal["updates"] = declared.value(
    False,
    "Record what methods need to weight clients: the clients' scalars and the "
    "inner products of their updates; with --tape=updates the updates, too. "
    "python -m binaries.replay then applies other methods' rules to the same "
    "rounds. Clients measure all signals, and the server sums in the stacked "
    "way.",
    expects="true, false or updates",
  )
  tape_rounds: int | None = declared.positive_integer(
    None, "Number of rounds to record, the first ones. By default all."
  )
  save_updates: int | None = declared.positive_integer(
    None,
    "Number of rounds between two files in updates/ of the run's folder. A "
    "file has the updates of the round's clients and all their signals. "
    "Clients do the work of these rounds twice. By default the run writes no "
    "updates.",
    decides=False,
  )


def part_size(
  clients_per_part: int, clients_per_round: bounds.Range | None
) -> int:
  """Returns the number of clients in a part of a cohort; 0 without parts."""
  try:
    _, most = bounds.range_ends(clients_per_round)
  except ValueError:  # The value is None, or invalid in a damaged record.
    return clients_per_part
  return 0 if most <= clients_per_part else clients_per_part


# The settings of label correction.


_A_SHARE: declared.Bounds = {"minimum": 0, "maximum": 1}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectionSettings:
  """Correction: wrong training labels, replaced before the first round."""

  label_correction: Literal["none", "fedcorr"] = declared.value(
    "none",
    "fedcorr: find clients with wrong labels and replace some of these labels "
    "before the first round, by FedCorr. The run then trains its method on the "
    "new labels, from FedCorr's model. Does not go with secure sums, "
    "--engine=dask, --dp_noise, --attack, --unseen_clients, --join_round, "
    "--local_baseline, --pooled_baseline, --loss_reference or "
    "--finetune_epochs.",
  )
  correction_iterations: int = declared.positive_integer(
    5,
    "Iterations of FedCorr's first stage. In each, every client trains once, "
    "and some of the noisy clients' labels change.",
  )
  correction_cohort: int = declared.positive_integer(
    1, "Number of clients that train at a time in such an iteration."
  )
  correction_finetuning: int = declared.value(
    50,
    "Rounds of FedCorr's second stage: only clean clients train, and then "
    "noisy clients' labels change again. 0 skips the stage.",
    minimum=0,
  )
  correction_proximal: float = declared.value(
    5.0,
    "FedCorr's beta: in the first stage, the weight of the proximal term (the "
    "squared distance from the received model) in a client's loss, times the "
    "client's noise level.",
    minimum=0,
    maximum=1000,
  )
  correction_neighbors: int = declared.value(
    20,
    "Number of nearest neighbours that determine the local dimension of a "
    "prediction.",
    minimum=2,
  )
  correction_share: float = declared.value(
    0.5,
    "Share of a client's suspicious labels that may change in an iteration, "
    "those with the largest losses.",
    **_A_SHARE,
  )
  correction_confidence: float = declared.value(
    0.5,
    "The model's predicted class becomes the label if its probability is this "
    "or more.",
    **_A_SHARE,
  )
  correction_clean: float = declared.value(
    0.1,
    "Clients with at most this noise level count as clean and take part in the "
    "second stage.",
    **_A_SHARE,
  )


# The settings of attacks, defences and privacy.


@dataclasses.dataclass(frozen=True, kw_only=True)
class AttackSettings:
  """Attack: a study of clients that report false numbers."""

  attack: Literal["none", "bias", "scaling"] = declared.value(
    "none",
    "What attackers, a random subset of the clients, do. bias: add a constant "
    "to the losses that they report; scaling: multiply their updates. The "
    "results also show the honest clients without the attackers.",
  )
  attack_share: float = declared.value(
    0.1,
    "Share of the clients that attack, in (0, 1); at least one attacks, and at "
    "least one is honest.",
    **declared.BETWEEN_0_AND_1,
  )
  attack_strength: float | None = declared.value(
    None,
    "What bias adds, 0 or more; the factor of scaling, below 0 to reverse "
    "updates.",
    expects="a finite number or none (in float32)",
    is_valid=lambda value: math.isfinite(declared.as_float32(value)),
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DefenceSettings:
  """Defence: what the server does against unusual updates."""

  defence: Literal["none", "zeroing", "clipping", "trimmed_mean", "median"] = (
    declared.value(
      "none",
      "zeroing: drop updates with an entry above a bound; clipping: shorten "
      "updates with a norm above a bound; the bounds adapt to the updates. "
      "trimmed_mean, median: sum coordinate by coordinate without the least "
      "and the greatest values, for methods that allow two_phase sums.",
    )
  )
  trimmed_share: float = declared.value(
    0.2,
    "Share of a cohort that trimmed_mean drops at each end, in (0, 1/2).",
    expects="a number in (0, 1/2)",
    is_valid=lambda value: 0 < value < 0.5,
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PrivacySettings:
  """Privacy: what a client may add to a sum, and noise on it."""

  secure_bound: float | None = declared.positive_number(
    None,
    "With --aggregation=secure, the largest entry that a client may add to the "
    "sum of weighted updates; the round drops a client beyond it. By default "
    "1024.",
  )
  dp_noise: float | None = declared.positive_number(
    None,
    "Differential privacy: the noise multiplier, which is the standard "
    "deviation of the noise on a round's sum in units of --dp_clip. The run "
    "reports its epsilon. Needs --client_weighting=uniform and a method whose "
    "coefficients do not depend on other clients, such as fedavg. By default "
    "no noise.",
  )
  dp_clip: float | None = declared.positive_number(
    None, "With --dp_noise, the norm to which a client's update is clipped."
  )
