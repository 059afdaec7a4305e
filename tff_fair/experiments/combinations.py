"""Settings of a run that do not go together, or have no effect together."""

import dataclasses
from collections.abc import Iterator

from tff_fair import declared, methods
from tff_fair.declared import FieldError
from tff_fair.experiments import settings

# Options of tasks that are about their own models.
_OF_TASKS_MODELS = (
  "initial_weights",
  "embedding_size",
  "lstm_layers",
  "lstm_units",
)


def check(spec: settings.RunSettings) -> None:
  """Checks that the settings of a run go together.

  Raises:
    FieldError: If they do not.
  """
  if spec.model is not None and "model" in spec.task_options:
    raise FieldError(
      "model",
      "the task's option model is given, too, as "
      f"{spec.task_options['model']}; leave one of the two out.",
      value=spec.model,
    )
  if spec.initial_model is not None and spec.initial_run is not None:
    raise FieldError(
      "initial_model",
      f"initial_run is given, too, as {spec.initial_run}; leave one of the two "
      "out.",
      value=spec.initial_model,
    )
  with_momentum = " or ".join(settings.WITH_MOMENTUM)
  for side in ("client", "server"):
    momentum = getattr(spec, f"{side}_momentum")
    optimizer = getattr(spec, f"{side}_optimizer")
    if momentum is not None and optimizer not in settings.WITH_MOMENTUM:
      raise FieldError(
        f"{side}_momentum",
        f"expected {side}_optimizer to be {with_momentum}, "
        f"found {optimizer or 'none'}.",
        value=momentum,
      )
  _check_kept(spec)
  kind, decay = (
    "server_learning_rate_decay_kind",
    "server_learning_rate_decay",
  )
  if getattr(spec, kind) is not None and getattr(spec, decay) is None:
    raise FieldError(
      kind, f"is of {decay}, which is not given.", value=getattr(spec, kind)
    )
  if spec.patience is not None and spec.criterion is None:
    raise FieldError(
      "patience",
      "does not say what is to improve; give criterion, mean or worst_10.",
      value=spec.patience,
    )
  _check_join_round(spec)
  if spec.tape and spec.loss_reference != "none":
    raise FieldError(
      "tape",
      "has the losses of clients, and the rule compares gaps: no replay would "
      "have them. Leave loss_reference or tape out.",
      value=spec.tape,
    )
  _check_local_work(spec)
  _check_server_step(spec)
  _check_decays(spec)
  _check_attack(spec)
  _check_privacy(spec)
  _check_correction(spec)


def _check_join_round(spec: settings.RunSettings) -> None:
  """Checks that late clients join, and the noise is of all rounds."""
  if spec.join_round is None:
    return
  rounds = [int(p.rpartition(":")[2]) for p in spec.join_round.split(",")]
  if max(rounds) > spec.total_rounds:
    raise FieldError(
      "join_round",
      f"the run has {spec.total_rounds:,} rounds; clients that take no part "
      "are unseen_clients.",
      value=spec.join_round,
    )
  if spec.dp_noise is not None:
    raise FieldError(
      "join_round",
      "dp_noise needs the same population in each round; leave one of the two "
      "out.",
      value=spec.join_round,
    )


def _check_kept(spec: settings.RunSettings) -> None:
  """Checks that clients have what they are to keep."""
  if (
    spec.client_momentum_kept
    and spec.client_optimizer not in settings.WITH_MOMENTUM
    and not spec.all_hparams.get("client_momentum")
  ):
    raise FieldError(
      "client_momentum_kept",
      f"expected client_optimizer to be {' or '.join(settings.WITH_MOMENTUM)}, "
      f"found {spec.client_optimizer}.",
      value=True,
    )
  if spec.personal_lam is not None and methods.sends_models(spec.algorithm):
    raise FieldError(
      "personal_lam",
      f"{spec.algorithm} trains personal models already, with its "
      "hyperparameter lam; leave personal_lam out.",
      value=spec.personal_lam,
    )


def _check_local_work(spec: settings.RunSettings) -> None:
  usual = spec.fields()["local_epochs"].default
  if spec.local_steps is not None and spec.local_epochs != usual:
    raise FieldError(
      "local_steps",
      f"takes the place of local_epochs, which is {spec.local_epochs}; leave "
      "one of the two out.",
      value=spec.local_steps,
    )
  mu = spec.all_hparams.get("mu", 0)
  if spec.proximal_mu and mu:
    raise FieldError(
      "proximal_mu",
      f"the proximal term of {spec.algorithm} is its hyperparameter mu, here "
      f"{declared.as_text(mu)}; leave proximal_mu out, and set mu.",
      value=spec.proximal_mu,
    )


def _check_server_step(spec: settings.RunSettings) -> None:
  if not spec.has_own_server_step:
    return
  if spec.server_optimizer is not None:
    raise FieldError(
      "server_optimizer",
      f"{spec.algorithm} has a server step of its own, set by its "
      "hyperparameters and server_learning_rate; leave server_optimizer out.",
    )
  name, rate = settings.SERVER_RATE, spec.server_learning_rate
  given = spec.hparams.get(name)
  if rate is not None and given not in (None, rate):
    raise FieldError(
      "server_learning_rate",
      f"is the hyperparameter {name} of {spec.algorithm}, which is given as "
      f"{given!r}; leave one of the two out.",
      value=rate,
    )


def _check_decays(spec: settings.RunSettings) -> None:
  for side in ("client", "server"):
    name = f"{side}_learning_rate_decay"
    decay, kind = getattr(spec, name), getattr(spec, f"{name}_kind")
    if decay is None:
      continue
    if kind == "inverse_time":
      is_valid, interval = decay >= 0, "[0, inf)"
    else:
      is_valid, interval = 0 < decay <= 1, "(0, 1]"
    if not is_valid:
      raise FieldError(
        name, f"expected a number in {interval}, found {decay!r}."
      )


def _check_attack(spec: settings.RunSettings) -> None:
  kind, strength = spec.attack, spec.attack_strength
  effects = {"bias": "adds to losses", "scaling": "multiplies updates with"}
  if kind == "none" and strength is not None:
    raise FieldError(
      "attack_strength",
      f"no client attacks; give attack, {' or '.join(effects)}, too.",
      value=strength,
    )
  if kind != "none" and strength is None:
    raise FieldError(
      "attack",
      "does not say how strongly; give attack_strength, what it "
      f"{effects[kind]}.",
      value=kind,
    )
  if kind == "bias" and strength is not None and strength < 0:
    raise FieldError(
      "attack_strength",
      f"expected a number in [0, inf) for bias, found {strength!r}.",
      value=strength,
    )


def _check_privacy(spec: settings.RunSettings) -> None:
  """Checks what the noise needs; the method is checked as it is built."""
  for name, other in (("dp_noise", "dp_clip"), ("dp_clip", "dp_noise")):
    value = getattr(spec, name)
    if value is not None and getattr(spec, other) is None:
      raise FieldError(name, f"needs {other}; give both.", value=value)
  if spec.dp_noise is None:
    return
  if spec.sampling == "proportional":
    raise FieldError(
      "sampling",
      "dp_noise needs cohorts that do not depend on the data; draw them "
      "uniformly, or take all clients.",
      value=spec.sampling,
    )
  if isinstance(spec.clients_per_round, str):
    raise FieldError(
      "clients_per_round",
      "dp_noise needs cohorts of one size, by which it divides the sum; give "
      "one number.",
      value=spec.clients_per_round,
    )
  if spec.client_weighting != "uniform":
    raise FieldError(
      "dp_noise",
      "needs client_weighting=uniform: the number of examples of one client "
      "would change the weights of all.",
      value=spec.dp_noise,
    )


def _check_correction(spec: settings.RunSettings) -> None:
  """Checks that nothing promises more than the correction of labels keeps."""
  if spec.label_correction == "none":
    return
  for name, reason in (
    *(
      (name, "clients alone would train on wrong labels")
      for name in ("local_baseline", "pooled_baseline", "loss_reference")
    ),
    ("dp_noise", "its noise would be on the rounds after the correction alone"),
    ("attack", "attackers would be honest while labels are corrected"),
    *(
      (name, "all clients take part in the correction")
      for name in ("unseen_clients", "join_round")
    ),
  ):
    if getattr(spec, name) != spec.fields()[name].default:
      raise FieldError(
        name,
        f"does not go with label_correction={spec.label_correction}: {reason}; "
        "leave one of the two out.",
        value=getattr(spec, name),
      )
  if spec.aggregation == "secure":
    raise FieldError(
      "aggregation",
      f"does not go with label_correction={spec.label_correction}, which asks "
      "each client for its noise level; leave one of the two out.",
      value=spec.aggregation,
    )


def without_effect(spec: settings.RunSettings) -> Iterator[str]:
  """Yields a line for each setting that was given and changes nothing.

  Files of settings serve several methods, so that this is no error.
  """
  fields = spec.fields()

  def is_given(name: str) -> bool:
    return bool(getattr(spec, name) != fields[name].default)

  if is_given("client_weighting") and not methods.weighs_clients(
    spec.algorithm
  ):
    yield (
      f"client_weighting={spec.client_weighting} has no effect: "
      f"{spec.algorithm} does not use the weights of clients."
    )
  for name, needed in (
    ("client_learning_rate_decay_kind", "client_learning_rate_decay"),
    ("client_learning_rate_decay_rounds", "client_learning_rate_decay"),
    ("dropout_kind", "dropout"),
    ("dropout_rounds", "dropout"),
    ("attack_share", "attack"),
    ("trimmed_share", "defence"),
    ("tape_rounds", "tape"),
    *(
      (f.name, "label_correction")
      for f in dataclasses.fields(settings.CorrectionSettings)
    ),
  ):
    if is_given(name) and not is_given(needed):
      yield f"{name}={getattr(spec, name)} has no effect without {needed}."
  if spec.secure_bound is not None and (
    spec.aggregation != "secure" or spec.dp_noise is not None
  ):
    yield (
      f"secure_bound={spec.secure_bound:g} has no effect: "
      + (
        "dp_clip is the bound."
        if spec.dp_noise is not None
        else "it is of aggregation=secure."
      )
    )
  for name in _OF_TASKS_MODELS:
    if spec.model is not None and name in spec.task_options:
      yield (
        f"task_option.{name} has no effect: model={spec.model} takes the place "
        "of the task's model."
      )
