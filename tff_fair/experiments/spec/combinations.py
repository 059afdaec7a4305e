"""Finds settings of a run that conflict, and settings that have no effect."""

import dataclasses
from collections.abc import Iterator

from tff_fair import declared, methods
from tff_fair.declared import FieldError
from tff_fair.experiments.spec.settings import RunSettings, federation, learning

# Task options that configure only the task's default model.
_OF_TASKS_MODELS = (
  *("initial_weights", "embedding_size", "lstm_layers", "lstm_units"),
)
# Pairs: the field at fault, and a phrase about the conflict.
_Conflicts = Iterator[tuple[str, str]]


def check(spec: RunSettings) -> None:
  """Raises a `FieldError` if settings of the run conflict."""
  for name, problem in _conflicts(spec):
    raise FieldError(name, problem, value=getattr(spec, name))


def _conflicts(spec: RunSettings) -> _Conflicts:
  if spec.model is not None and "model" in spec.task_options:
    yield (
      "model",
      "the task's option model is given, too, as "
      f"{spec.task_options['model']}; leave one of the two out.",
    )
  if spec.initial_model is not None and spec.initial_run is not None:
    yield (
      "initial_model",
      f"initial_run is given, too, as {spec.initial_run}; leave one of the two "
      "out.",
    )
  yield from _momentum_conflicts(spec)
  decay = "server_learning_rate_decay"
  kind = f"{decay}_kind"
  if getattr(spec, kind) is not None and getattr(spec, decay) is None:
    yield kind, f"applies to {decay}, which is not given."
  if spec.patience is not None and spec.criterion is None:
    yield (
      "patience",
      "needs a measure to improve; give criterion=mean or criterion=worst_10.",
    )
  if spec.criterion is not None and spec.validation_fraction == 0:
    yield (
      "validation_fraction",
      "leaves criterion nothing to choose on but the test data, which the run "
      "reports; set a share above 0 aside, or leave criterion out.",
    )
  yield from _sampling_conflicts(spec)
  yield from _late_client_conflicts(spec)
  if spec.tape and spec.loss_reference != "none":
    yield (
      "tape",
      "has the losses of clients, but the rule compares gaps, which a replay "
      "would lack. Leave loss_reference or tape out.",
    )
  yield from _local_work_conflicts(spec)
  yield from _server_step_conflicts(spec)
  yield from _decay_conflicts(spec)
  yield from _attack_conflicts(spec)
  yield from _privacy_conflicts(spec)
  yield from _correction_conflicts(spec)


def _momentum_conflicts(spec: RunSettings) -> _Conflicts:
  """Yields conflicts of momentum, control variates and personal models."""
  with_momentum = " or ".join(learning.WITH_MOMENTUM)
  for side in ("client", "server"):
    optimizer = getattr(spec, f"{side}_optimizer")
    if (
      getattr(spec, f"{side}_momentum") is not None
      and optimizer not in learning.WITH_MOMENTUM
    ):
      yield (
        f"{side}_momentum",
        f"expected {side}_optimizer to be {with_momentum}, "
        f"found {optimizer or 'none'}.",
      )
  if (
    spec.client_momentum_kept
    and spec.client_optimizer not in learning.WITH_MOMENTUM
    and not spec.all_hparams.get("client_momentum")
  ):
    yield (
      "client_momentum_kept",
      f"expected client_optimizer to be {with_momentum}, "
      f"found {spec.client_optimizer}.",
    )
  if spec.corrects_steps and spec.client_optimizer != "sgd":
    yield (
      "client_optimizer",
      "SCAFFOLD's control variates need sgd at the clients; choose sgd, or "
      "leave the correction out.",
    )
  if (
    spec.personal_lam is not None
    and methods.method(spec.algorithm).sends_models
  ):
    yield (
      "personal_lam",
      f"{spec.algorithm} trains personal models already, with its "
      "hyperparameter lam; leave personal_lam out.",
    )


def _sampling_conflicts(spec: RunSettings) -> _Conflicts:
  """Yields conflicts of the settings by which a run draws its cohorts."""
  if spec.draws_by_lambda:
    if spec.sampling not in ("uniform", "by_lambda"):
      yield "sampling", "drfa draws its cohorts by_lambda; leave sampling out."
    for name in ("dropout", "join_round"):
      if getattr(spec, name):
        yield name, "does not go with drfa; leave one of the two out."
  elif spec.sampling == "by_lambda":
    yield (
      "sampling",
      "by_lambda draws by the weights that drfa learns; choose drfa.",
    )
  if spec.sampling != "power_of_choice":
    return
  if spec.aggregation == "secure":
    yield (
      "sampling",
      "power_of_choice needs the losses of single clients, which secure sums "
      "hide; choose another sampling or aggregation.",
    )
  if spec.dropout and spec.dropout_kind != "independent":
    yield (
      "dropout_kind",
      "goes with sampling=power_of_choice if clients drop out independently; "
      "leave one of the two out.",
    )


def _late_client_conflicts(spec: RunSettings) -> _Conflicts:
  if spec.join_round is None:
    return
  rounds = [int(p.rpartition(":")[2]) for p in spec.join_round.split(",")]
  if max(rounds) > spec.total_rounds:
    yield (
      "join_round",
      f"the run has {spec.total_rounds:,} rounds; clients that take no part "
      "are unseen_clients.",
    )
  if spec.dp_noise is not None:
    yield (
      "join_round",
      "dp_noise needs the same population in each round; leave one of the two "
      "out.",
    )


def _local_work_conflicts(spec: RunSettings) -> _Conflicts:
  usual = spec.fields()["local_epochs"].default
  if spec.local_steps is not None and spec.local_epochs != usual:
    yield (
      "local_steps",
      f"takes the place of local_epochs, which is {spec.local_epochs}; leave "
      "one of the two out.",
    )
  mu = spec.all_hparams.get("mu", 0)
  if spec.proximal_mu and mu:
    yield (
      "proximal_mu",
      f"the proximal term of {spec.algorithm} is its hyperparameter mu, here "
      f"{declared.as_text(mu)}; leave proximal_mu out, and set mu.",
    )


def _server_step_conflicts(spec: RunSettings) -> _Conflicts:
  if not spec.has_own_server_step:
    return
  if spec.server_optimizer is not None:
    yield (
      "server_optimizer",
      f"{spec.algorithm} has its own server step, set by its "
      "hyperparameters and server_learning_rate; leave server_optimizer out.",
    )
  name, rate = learning.SERVER_RATE, spec.server_learning_rate
  given = spec.hparams.get(name)
  if rate is not None and given not in (None, rate):
    yield (
      "server_learning_rate",
      f"is the hyperparameter {name} of {spec.algorithm}, which is given as "
      f"{given!r}; leave one of the two out.",
    )


def _decay_conflicts(spec: RunSettings) -> _Conflicts:
  for side in ("client", "server"):
    name = f"{side}_learning_rate_decay"
    decay, kind = getattr(spec, name), getattr(spec, f"{name}_kind")
    if decay is None:
      continue
    if kind == "inverse_time" and decay < 0:
      yield name, "expected a number in [0, inf)."
    elif kind != "inverse_time" and not 0 < decay <= 1:
      yield name, "expected a number in (0, 1]."


def _attack_conflicts(spec: RunSettings) -> _Conflicts:
  kind, strength = spec.attack, spec.attack_strength
  effects = {"bias": "adds to losses", "scaling": "multiplies updates with"}
  if kind == "none" and strength is not None:
    yield (
      "attack_strength",
      f"no client attacks; give attack, {' or '.join(effects)}, too.",
    )
  if kind != "none" and strength is None:
    yield (
      "attack",
      f"needs a strength; give attack_strength, what it {effects[kind]}.",
    )
  if kind == "bias" and strength is not None and strength < 0:
    yield "attack_strength", "expected a number in [0, inf) for bias."


def _privacy_conflicts(spec: RunSettings) -> _Conflicts:
  """Yields conflicts of privacy settings that do not depend on the method."""
  for name, other in (("dp_noise", "dp_clip"), ("dp_clip", "dp_noise")):
    if getattr(spec, name) is not None and getattr(spec, other) is None:
      yield name, f"needs {other}; give both."
  for name, hides in (
    ("aggregation=secure", spec.aggregation == "secure"),
    ("dp_noise", spec.dp_noise is not None),
  ):
    if hides and spec.save_updates is not None:
      yield (
        "save_updates",
        f"shows the updates of single clients, which {name} hides; leave one "
        "of the two out.",
      )
  if spec.dp_noise is None:
    return
  if spec.sampling in ("proportional", "power_of_choice"):
    yield (
      "sampling",
      "dp_noise needs cohorts that do not depend on the data; draw them "
      "uniformly, or take all clients.",
    )
  if spec.dropout and spec.dropout_kind in ("by_size", "by_label"):
    yield (
      "dropout_kind",
      "dp_noise needs cohorts that do not depend on the data, but here one "
      "client's examples change who reports back; choose another kind.",
    )
  if isinstance(spec.clients_per_round, str):
    yield (
      "clients_per_round",
      "dp_noise needs cohorts of one size, by which it divides the sum; give "
      "one number.",
    )
  if spec.client_weighting != "uniform":
    yield (
      "dp_noise",
      "needs client_weighting=uniform: the number of examples of one client "
      "would change the weights of all.",
    )


def _correction_conflicts(spec: RunSettings) -> _Conflicts:
  """Yields conflicts of the settings of label correction."""
  if spec.label_correction == "none":
    return
  alone = "clients alone would train on wrong labels"
  together = "all clients take part in the correction"
  for name, reason in {
    "local_baseline": alone,
    "pooled_baseline": alone,
    "loss_reference": alone,
    "finetune_epochs": alone,
    "dp_noise": "its noise would be only on the rounds after the correction",
    "attack": "attackers would be honest while labels are corrected",
    "unseen_clients": together,
    "join_round": together,
  }.items():
    if getattr(spec, name) != spec.fields()[name].default:
      yield (
        name,
        f"does not go with label_correction={spec.label_correction}: {reason}; "
        "leave one of the two out.",
      )
  if spec.aggregation == "secure":
    yield (
      "aggregation",
      f"does not go with label_correction={spec.label_correction}, which asks "
      "each client for its noise level; leave one of the two out.",
    )


def ineffective_settings(spec: RunSettings) -> Iterator[str]:
  """Yields a line for each given setting that has no effect.

  This is not an error, as a file of settings may serve several methods.
  """
  fields = spec.fields()

  def is_given(name: str) -> bool:
    return bool(getattr(spec, name) != fields[name].default)

  if (
    is_given("client_weighting")
    and not methods.method(spec.algorithm).weighs_clients
  ):
    yield (
      f"client_weighting={spec.client_weighting} has no effect: "
      f"{spec.algorithm} does not use the weights of clients."
    )
  if spec.algorithm == "maxfl" and spec.loss_reference == "none":
    yield (
      "maxfl: without loss_reference=local, each client requires a loss of 0; "
      "with it, the loss of the model that the client trains alone."
    )
  for name, needed in (
    ("client_learning_rate_decay_kind", "client_learning_rate_decay"),
    ("client_learning_rate_decay_rounds", "client_learning_rate_decay"),
    ("dropout_kind", "dropout"),
    ("dropout_rounds", "dropout"),
    ("attack_share", "attack"),
    ("trimmed_share", "defence"),
    ("tape_rounds", "tape"),
    ("finetune_learning_rate", "finetune_epochs"),
    *(
      (f.name, "label_correction")
      for f in dataclasses.fields(federation.CorrectionSettings)
    ),
  ):
    if is_given(name) and not is_given(needed):
      yield f"{name}={getattr(spec, name)} has no effect without {needed}."
  if spec.sampling_candidates is not None and (
    spec.sampling != "power_of_choice"
  ):
    yield (
      f"sampling_candidates={spec.sampling_candidates} has no effect without "
      "sampling=power_of_choice."
    )
  if spec.secure_bound is not None and (
    spec.aggregation != "secure" or spec.dp_noise is not None
  ):
    why = "it applies to aggregation=secure"
    if spec.dp_noise is not None:
      why = "dp_clip is the bound"
    yield f"secure_bound={spec.secure_bound:g} has no effect: {why}."
  for name in _OF_TASKS_MODELS:
    if spec.model is not None and name in spec.task_options:
      yield (
        f"task_option.{name} has no effect: model={spec.model} takes the place "
        "of the task's model."
      )
