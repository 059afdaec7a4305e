"""Checks a run's settings against its task, and resolves them to a plan."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tasks
from tff_fair import client_works, methods, privacy, summing
from tff_fair.declared import FieldError
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.spec.settings import bounds, federation
from tff_fair.experiments.training import sampling, scoring


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
  """The resolved settings of a run with K clients."""

  aggregation: str
  clients_per_round: bounds.Range
  evaluated_ids: np.ndarray  # int64[n], the evaluated clients, ascending.
  first_rounds: np.ndarray  # int64[K], see `sampling.first_rounds`.
  attack: client_works.Attack | None
  defence: summing.Defence | None
  dp: privacy.DifferentialPrivacy | None
  scores: scoring.ScoringSettings
  entropy_classes: int | None  # None unless the loss is the cross entropy.

  @property
  def attackers(self) -> Sequence[int]:
    """The ids of the clients that attack."""
    return self.attack.client_ids if self.attack else ()


def resolve(spec: RunSpec, task: tasks.Task) -> Plan:
  """Returns the plan that follows from a run's settings and its task."""
  check(spec, task)
  first = sampling.first_rounds(spec, task)
  clients = sampling.evaluation_clients(spec, first)
  cohort = clients_per_round(spec, sampling.num_participants(first))
  _check_validation(spec, task, clients[sampling.participates(first[clients])])
  return Plan(
    attack=attack(spec, np.flatnonzero(sampling.participates(first)), clients),
    aggregation=aggregation(spec),
    defence=defence(spec),
    clients_per_round=cohort,
    evaluated_ids=clients,
    first_rounds=first,
    dp=privacy_noise(spec, cohort),
    scores=scoring.resolve(task, spec),
    entropy_classes=_entropy_classes(spec, task),
  )


def check(spec: RunSpec, task: tasks.Task) -> None:
  """Checks that a task has all that the method and other settings need."""
  if task.num_classes is None and methods.method(spec.algorithm).needs_accuracy:
    raise FieldError(
      "algorithm",
      f"needs the accuracies of clients, and the label of {task.name} is a "
      "number; choose a method that needs only losses.",
      value=spec.algorithm,
    )
  if spec.draws_by_lambda and not isinstance(spec.local_steps, int):
    raise FieldError(
      "local_steps",
      f"{spec.algorithm} needs the same number of steps at all clients; give a "
      "number, such as local_steps=10.",
      value=spec.local_steps,
    )
  _check_reference(spec)
  _check_correction(spec, task)
  is_by_label = spec.dropout and spec.dropout_kind == "by_label"
  if is_by_label and not task.has_class_labels:
    raise _no_class_labels(spec, task, "dropout_kind", "choose another kind.")
  _check_groups(spec, task)
  if spec.threshold_for is not None and task.num_classes != 2:
    raise FieldError(
      "threshold_for",
      "needs two classes, and the task has "
      f"{task.num_classes or 'numbers as labels'}; leave it out.",
      value=spec.threshold_for,
    )
  for name in (*BASELINE_SETTINGS, "threshold_for"):
    value = getattr(spec, name)
    if task.num_classes and value != spec.fields()[name].default:
      scoring.require_class_logits(task, name, value)


# Names of methods that need groups of people.
FAIRFED = "fairfed"
FEDMINMAX = "fedminmax"


def _check_groups(spec: RunSpec, task: tasks.Task) -> None:
  """Checks that there are groups of people if the method needs them."""
  if not methods.method(spec.algorithm).needs_groups:
    return
  if task.train.groups is None or task.group_names is None:
    raise FieldError(
      "algorithm",
      f"needs groups of people, and {task.name} names none; name their column "
      "with the task's option group, or choose another method.",
      value=spec.algorithm,
    )
  gap = spec.all_hparams.get("gap", "accuracy_parity")
  needs_class = gap != "accuracy_parity"
  if needs_class and task.num_classes != 2 and spec.score_class is None:
    raise FieldError(
      "score_class",
      f"{spec.algorithm}'s gap={gap} needs one class of several; name it, or "
      "take gap=accuracy_parity.",
      value=spec.score_class,
    )


def _check_validation(
  spec: RunSpec, task: tasks.Task, client_ids: np.ndarray
) -> None:
  """Checks that some of the clients have validation examples."""
  if (
    task.validation is not None
    and not task.validation.num_examples[client_ids].any()
  ):
    raise FieldError(
      "validation_fraction",
      "sets aside no example of the clients that the run evaluates; evaluate "
      "more clients, or set a larger share aside.",
      value=spec.validation_share,
    )


def _entropy_classes(spec: RunSpec, task: tasks.Task) -> int | None:
  options = spec.task_options
  if (
    task.objective.activation != "softmax"
    or tasks.file_digest(spec.task) is not None
    or options.get("loss") is not None
    or options.get("class_weights") is not None
  ):
    return None
  return task.num_classes


BASELINE_SETTINGS = (
  *("local_baseline", "pooled_baseline", "loss_reference"),
  "finetune_epochs",
)


def _check_reference(spec: RunSpec) -> None:
  """Checks that the method can use loss gaps if the run requests them."""
  if spec.loss_reference != "none":
    rule = methods.get(spec.algorithm).build.rule
    if not rule.takes_gaps:
      raise FieldError(
        "loss_reference",
        f"{spec.algorithm} needs losses of 0 or more, and a gap may be "
        "negative, or it reads no losses; choose one of vred, semi_vred, term, "
        "afl, delta_fl, gifair, fedgini and maxfl.",
        value=spec.loss_reference,
      )


def _no_class_labels(
  spec: RunSpec, task: tasks.Task, field: str, advice: str
) -> FieldError:
  return FieldError(
    field,
    f"the task {task.name} has no class labels (one class for each example); "
    f"{advice}",
    value=getattr(spec, field),
  )


def _check_correction(spec: RunSpec, task: tasks.Task) -> None:
  if spec.label_correction == "none":
    return
  if not task.has_class_labels or task.objective.activation == "sigmoid":
    raise _no_class_labels(
      spec, task, "label_correction", "leave label_correction out."
    )
  if task.num_clients < 2:
    raise FieldError(
      "label_correction",
      "the task has one client; expected a clean one and a noisy one.",
      value=spec.label_correction,
    )
  if spec.correction_cohort > task.num_clients:
    raise _too_many(
      "correction_cohort", spec.correction_cohort, task.num_clients
    )


def clients_per_round(spec: RunSpec, num_clients: int) -> bounds.Range:
  """Returns the size of cohorts, or the range of their sizes, after checks."""
  value = spec.clients_per_round
  if spec.sampling == "all":
    if value not in (None, num_clients):
      raise FieldError(
        "clients_per_round",
        f"sampling=all takes all {num_clients} clients in every round; leave "
        "one of the two out.",
        value=value,
      )
    return num_clients
  if value is None:
    value = min(federation.USUAL_COHORT, num_clients)
  most = bounds.range_ends(value)[1]
  if most > num_clients:
    raise _too_many("clients_per_round", value, num_clients)
  candidates = spec.sampling_candidates
  if candidates is not None and not most <= candidates <= num_clients:
    raise FieldError(
      "sampling_candidates",
      f"a round draws up to {most} clients from the candidates, and the task "
      f"has {num_clients}; expected {most} to {num_clients}.",
      value=candidates,
    )
  return value


def _too_many(field: str, value: object, num_clients: int) -> FieldError:
  return FieldError(
    field,
    f"the task has {num_clients} clients; expected 1 to {num_clients}.",
    value=value,
  )


def attack(
  spec: RunSpec, seen: np.ndarray, evaluated: np.ndarray
) -> client_works.Attack | None:
  """Returns the attack and its attackers among the clients `seen`, or None."""
  if spec.attack == "none" or spec.attack_strength is None:
    return None
  if seen.size < 2:
    raise FieldError(
      "attack",
      "one client takes part; expected an honest one, too.",
      value=spec.attack,
    )
  drawn = sampling.draw_attackers(spec.seed, seen.size, spec.attack_share)
  ids = seen[drawn].tolist()
  if set(evaluated.tolist()) & set(seen.tolist()) <= set(ids):
    raise FieldError(
      "attack",
      "every client that the run evaluates attacks; evaluate more clients, or "
      "choose another seed.",
      value=spec.attack,
    )
  return client_works.Attack(
    kind=spec.attack, strength=spec.attack_strength, client_ids=tuple(ids)
  )


def aggregation(spec: RunSpec) -> str:
  """Returns a run's aggregation kind, such as `summing.SECURE`."""
  valid = methods.get(spec.algorithm).aggregations
  protection = defence(spec)
  usual = summing.STACKED if spec.measures_stationarity else valid[0]
  # Only two-phase aggregation supports defences that replace the sum.
  if protection and protection.sum_factory and summing.TWO_PHASE in valid:
    usual = summing.TWO_PHASE
  chosen = usual if spec.aggregation is None else spec.aggregation
  if chosen not in valid:
    reason = ""
    if (
      chosen == summing.SECURE
      and not methods.method(spec.algorithm).sends_models
      and not methods.method(spec.algorithm).sends_controls
    ):
      rule = methods.get(spec.algorithm).build.rule
      reason = f" ({summing.why_not_secure(rule)})"
    raise FieldError(
      "aggregation",
      f"not possible for {spec.algorithm}{reason}; valid: {', '.join(valid)}.",
      value=chosen,
    )
  return str(chosen)


def defence(spec: RunSpec) -> summing.Defence | None:
  """Returns the defence of a run's sums, if it has one."""
  if spec.defence == "none":
    return None
  return summing.Defence(kind=spec.defence, trimmed_share=spec.trimmed_share)


# The entry of `summary.json` with the result of `account_privacy`.
PRIVACY = "privacy"

SUMS_ARE_SIMULATED = (
  "Secure sums are simulated: this machine adds in the clear, which protects "
  "nothing here."
)
_ASSUMPTION = (
  "An attacker sees the trained models, but neither the cohorts nor the seed. "
  "Cohorts have a fixed size and are drawn uniformly without replacement; "
  "neighbours differ in the data of one client."
)
# What epsilon does not cover, since it is revealed without noise: in every run,
# and (`_LEFT_OUT`) in runs in which the setting has a value.
_ALWAYS_LEFT_OUT = (
  "the tables of the run, as training metrics and evaluations",
  "what the task takes from training data before the first round, such as "
  "moments of columns, categories and vocabularies",
)
_LEFT_OUT = {
  "initial_model": "the initial model (initial_model)",
  "initial_run": "the initial model (initial_run)",
  "criterion": "the choice of the best round by evaluations (criterion)",
  "patience": "the choice of the last round by evaluations (patience)",
  "threshold_for": "the threshold, chosen by training labels (threshold_for)",
}


def privacy_noise(
  spec: RunSpec, clients_per_round: bounds.Range
) -> privacy.DifferentialPrivacy | None:
  """Returns a run's differential privacy; None without noise."""
  if spec.dp_noise is None or spec.dp_clip is None:
    return None
  return privacy.dp(
    spec.dp_noise, bounds.range_ends(clients_per_round)[1], spec.dp_clip
  )


def account_privacy(
  spec: RunSpec,
  dp: privacy.DifferentialPrivacy,
  *,
  num_clients: int,
  rounds: int,
) -> dict[str, object]:
  """Returns the privacy that `rounds` rounds of a run spend, as JSON values."""
  # With early stopping, privacy is spent for all rounds that might be trained.
  rounds = rounds if spec.patience is None else spec.total_rounds
  return {
    "epsilon": privacy.epsilon(dp, num_clients=num_clients, rounds=rounds),
    "delta": privacy.default_delta(num_clients),
    "noise_multiplier": dp.noise_multiplier,
    "clip": dp.clip,
    "clients_per_round": dp.clients_per_round,
    "rounds": rounds,
    "assumption": _ASSUMPTION,
    "left_out": [
      *_ALWAYS_LEFT_OUT,
      *(
        text
        for name, text in _LEFT_OUT.items()
        if getattr(spec, name) is not None
      ),
    ],
  }


def describe_privacy(spent: Mapping[str, Any]) -> str:
  """Returns the result of `account_privacy` as sentences."""
  return (
    f"Differential privacy: epsilon = {spent['epsilon']:.3g} at delta = "
    f"{spent['delta']:.2g}. {spent['assumption']} Epsilon leaves out: "
    f"{'; '.join(spent['left_out'])}."
  )
