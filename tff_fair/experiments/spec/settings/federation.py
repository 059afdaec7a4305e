"""The settings of cohorts, of the loop over rounds, and of evaluations."""

import dataclasses
import math
import typing
from collections.abc import Sequence
from typing import Literal

from tff_fair import declared
from tff_fair.experiments.spec.settings import bounds

USUAL_COHORT = 10
USUAL_PART = 32  # As `tff_fair.runtime` has it, which imports TensorFlow.
USUAL_INTERVAL = 10  # In rounds, from one evaluation to the next.
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
    "How a round draws its cohort, without replacement: uniform; proportional "
    "to training examples, one client after the other; power_of_choice: "
    "likewise --sampling_candidates, of which those with the largest last "
    "known loss take part; by_lambda: with replacement, by the weights that "
    "drfa gives clients, as drfa always does; or all clients in every round.",
  )
  sampling_candidates: int | None = declared.positive_integer(
    None,
    "How many candidates --sampling=power_of_choice draws. By default twice "
    "the cohort, or all clients where there are fewer.",
  )
  clients_per_round: int | str | None = declared.value(
    None,
    "Size of the cohort, drawn anew each round; or a range as 5-15, from which "
    f"each round draws its size. By default {USUAL_COHORT}, or all clients "
    "where there are fewer.",
    **bounds.A_RANGE,
  )
  clients_per_part: int = declared.value(
    USUAL_PART,
    "Cohorts of more clients are computed in parts of so many; 0 computes each "
    "cohort as a whole. Parts bound the memory of a worker. Their size decides "
    "the last digits of results, the number of workers does not.",
    minimum=0,
  )
  dropout: float = declared.value(
    0.0,
    "Probability that a drawn client does not report back, in [0, 1). If all "
    "clients of a cohort would drop out, one of them, drawn by lot, reports.",
    **declared.BELOW_1,
  )
  dropout_kind: Literal[
    "independent", "by_client", "by_size", "by_label", "blocks", "periodic"
  ] = declared.value(
    "independent",
    "How clients drop out, with the probability --dropout, p, on average: "
    "independently in each round; by_client: each has a probability for the "
    "whole run, drawn uniformly from [0, 2p] for p up to 1/2, from [2p - 1, 1] "
    "above; by_size: the fewer its training examples, the more often, evenly "
    "spread over that interval; by_label: likewise, by the number of its most "
    "frequent label; blocks: each is away for --dropout_rounds, or there; "
    "periodic: its probability goes up and down in that interval, once in "
    "--dropout_rounds, each client at its time.",
  )
  dropout_rounds: int = declared.positive_integer(
    10, "Rounds of a block or period of --dropout_kind."
  )
  unseen_clients: str | None = declared.value(
    None,
    "Clients that take no part in training, and are evaluated: a share of them "
    "in (0, 1), drawn by lot, or their names with commas between. The results "
    "tell what a client that joins later may expect. By default none.",
    expects="a share or names of clients, with commas between",
    is_valid=lambda text: all(text.split(",")),
  )
  join_round: str | None = declared.value(
    None,
    "Clients that take part from a round on, as NAME:20 or, of a share of them "
    "drawn by lot, 0.3:20; several with commas between. The results tell what "
    "they and the others gain from then on. By default all begin at once.",
    expects="NAME:ROUND or SHARE:ROUND, with commas between, ROUND 2 or more",
    is_valid=lambda text: all(map(_is_joining, text.split(","))),
  )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopSettings:
  """Loop: rounds, checkpoints, and the seeds."""

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
    **bounds.A_SEED,
  )
  data_seed: int | None = declared.value(
    None,
    "Seed of the task's data alone: of made-up data, of the cut over clients, "
    "of the choice of clients and of the test examples. By default --seed.",
    **bounds.A_SEED,
  )
  model_seed: int | None = declared.value(
    None,
    "Seed of the initial weights alone, and of a model's own dropout. By "
    "default --seed. With --data_seed=0 and several of these, runs begin at "
    "other weights and have the same clients.",
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
  """Evaluation: of whom, and what follows from it."""

  evaluation_clients: int | None = declared.positive_integer(
    None,
    "How many clients the run evaluates, drawn once, the same in all "
    "evaluations and in the results at the end. By default all.",
  )
  score: ScoreName | None = declared.value(
    None,
    "The number by which clients are compared, and by which a run, a sweep and "
    "a search choose: of classes those up to calibration_error, of numbers the "
    "others. By default accuracy, or rmse.",
  )
  measures: str | None = declared.value(
    None,
    "Further scores that evaluations measure, as auc,f1,recall. By default "
    "none; a regression has rmse and r2.",
    expects=f"some of {', '.join(SCORES)}, each once, with commas between",
    is_valid=lambda text: _are_scores(text.split(",")),
  )
  score_class: str | None = declared.value(
    None,
    "The class that precision, recall, f1, auc and average_precision are of, "
    "by its name or number. By default the rarer one of two, and of more "
    "classes the mean over those that a client has.",
  )
  threshold_for: Literal["accuracy", "balanced_accuracy", "f1"] | None = (
    declared.value(
      None,
      "Of two classes, choose the probability from which on to decide for "
      "--score_class, by default the rarer one, so that this score is largest "
      "on training data. The results have it, and exports decide by it.",
      decides=False,
    )
  )
  validation_fraction: float | None = declared.value(
    None,
    "Share of each client's training examples, in [0, 1), that the run does "
    "not train on: evaluations measure them, too, and --criterion, --patience, "
    "a sweep and a search choose on them. Drawn by --data_seed, class by "
    "class. A client with too few examples trains on all. By default 0.1 with "
    "--criterion, else none.",
    **declared.BELOW_1,
  )
  criterion: Literal["mean", "worst_10"] | None = declared.value(
    None,
    "Keep the state at the evaluation with the best mean of the score over "
    "clients, or mean over the worst 10 %, in best_checkpoint: the largest "
    "accuracy, or of a regression the smallest error, on the data that "
    "--validation_fraction sets aside. By default the run keeps its last state "
    "alone.",
  )
  patience: int | None = declared.positive_integer(
    None,
    "End the run after so many evaluations in a row that did not improve the "
    "--criterion. By default it goes on to the last round.",
  )
  local_baseline: bool = declared.value(
    False,
    "Train each client alone, too, before the first round: from the initial "
    "model, as long as it likes, at a quarter of --client_learning_rate, at it "
    "and at four times it. Each third of its training data in turn chooses "
    "the rate and the number of rounds. The results show who gains from "
    "joining.",
    decides=False,
  )
  pooled_baseline: bool = declared.value(
    False,
    "Train the model on the data of all clients in one place, too, for as many "
    "rounds, as a bound to compare with.",
    decides=False,
  )
  finetune_epochs: int | None = declared.positive_integer(
    None,
    "After the last round, train the model for 0, 1, ... and so many local "
    "epochs at each client: finetuned_SCORE in clients.csv is of the number "
    "with the least loss on training examples that fine-tuning leaves out. By "
    "default there is no fine-tuning.",
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
    "did not rise, cohorts.csv has their losses.",
  )
  certificate: bool = declared.value(
    False,
    "Measure in each round how far it is from where no client can gain "
    "without another's loss (pareto_stationarity in metrics.csv), and which "
    "clients block. The server then sums in the stacked way. Geometric methods "
    "measure it always.",
  )
  stop_at_stationarity: float | None = declared.value(
    None,
    "End the run after the first round whose pareto_stationarity is this or "
    "less, in (0, 1). By default it goes on to the last round.",
    **declared.BETWEEN_0_AND_1,
  )
  tape: bool | Literal["updates"] = declared.value(
    False,
    "Keep of each round what rules need to choose coefficients: the clients' "
    "scalars and the inner products of their updates, with updates the updates "
    "themselves, too. python -m binaries.replay then applies other rules to "
    "the same rounds. Clients measure all signals, and the server sums in the "
    "stacked way.",
    expects="true, false or updates",
  )
  tape_rounds: int | None = declared.positive_integer(
    None, "The tape keeps so many rounds, the first ones. By default all."
  )
  save_updates: int | None = declared.positive_integer(
    None,
    "After every so many rounds, write the updates of the round's clients, one "
    "by one, with all their signals, to updates/ in the run's folder. Clients "
    "do the work of these rounds twice. By default no updates are written.",
    decides=False,
  )


def part_size(
  clients_per_part: int, clients_per_round: bounds.Range | None
) -> int:
  """Returns the size of a run's parts of cohorts; 0 if each is one part."""
  try:
    _, most = bounds.range_ends(clients_per_round)
  except ValueError:  # None, or of a damaged record.
    return clients_per_part
  return 0 if most <= clients_per_part else clients_per_part


# The settings of label correction.


_A_SHARE: declared.Bounds = {"minimum": 0, "maximum": 1}


@dataclasses.dataclass(frozen=True, kw_only=True)
class CorrectionSettings:
  """Correction: wrong training labels, replaced before the first round."""

  label_correction: Literal["none", "fedcorr"] = declared.value(
    "none",
    "FedCorr finds clients with wrong labels and replaces some of these labels "
    "before the first round. The run then trains by its method, with the new "
    "labels, and begins with FedCorr's model.",
  )
  correction_iterations: int = declared.positive_integer(
    5,
    "Iterations of FedCorr's first stage. In each, every client trains once, "
    "and some of the noisy clients' labels change.",
  )
  correction_cohort: int = declared.positive_integer(
    1, "How many clients train at a time in such an iteration."
  )
  correction_finetuning: int = declared.value(
    50,
    "Rounds of FedCorr's second stage: clean clients alone train, and then "
    "noisy clients' labels change again. 0 leaves the stage out.",
    minimum=0,
  )
  correction_proximal: float = declared.value(
    5.0,
    "FedCorr's beta: in the first stage, a client's weight of the squared "
    "distance from the received model is this times its noise level.",
    minimum=0,
    maximum=1000,
  )
  correction_neighbors: int = declared.value(
    20,
    "How many nearest neighbours tell the local dimension of a prediction.",
    minimum=2,
  )
  correction_share: float = declared.value(
    0.5,
    "Share of a client's labels that look wrong, those of the largest losses, "
    "which may change in an iteration.",
    **_A_SHARE,
  )
  correction_confidence: float = declared.value(
    0.5,
    "The model's predicted class becomes the label where its probability is "
    "this or more.",
    **_A_SHARE,
  )
  correction_clean: float = declared.value(
    0.1,
    "A client counts as clean, and takes part in the second stage, up to this "
    "noise level.",
    **_A_SHARE,
  )


# The settings of attacks, defences and privacy.


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
    **declared.BETWEEN_0_AND_1,
  )
  attack_strength: float | None = declared.value(
    None,
    "What bias adds, 0 or more; what scaling multiplies with, below 0 to turn "
    "updates round.",
    expects="a finite number or none (in float32)",
    is_valid=lambda value: math.isfinite(declared.as_float32(value)),
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
