"""Checks that the parts of a process go together."""

from tff_fair import client_works, declared, privacy, summing, types
from tff_fair.optimizers import checking
from tff_fair.rounds.options import Optimizer


def check_kept(
  factory: summing.RuleFactory, dp: privacy.DifferentialPrivacy | None
) -> None:
  """Raises if what clients keep would tell the server what a sum hides."""
  for option, is_given in (
    ("aggregation", factory.aggregation == summing.SECURE),
    ("dp", dp is not None),
  ):
    if is_given:
      raise declared.FieldError(
        option,
        "Clients keep personal models or momentum here. Both travel to the "
        "server in the clear, those of each client by themselves: leave "
        f"{option} out, or let clients keep nothing.",
      )


def check_learning_rate(
  rule: types.Rule,
  client_optimizer: Optimizer,
  settings: client_works.TrainingSettings,
) -> None:
  """Raises if the client optimizer lacks a learning rate that is needed."""
  if (
    "learning_rate" in rule.signals or settings.learning_rate_decay is not None
  ) and checking.learning_rate(client_optimizer) is None:
    raise declared.FieldError(
      "client_optimizer",
      "A client optimizer with the hyperparameter learning_rate is needed, for "
      "its decay or because the method uses it; this one has none.",
    )


def check_line_search(
  server_optimizer: Optimizer | None,
  settings: client_works.TrainingSettings,
  *,
  has_own_step: bool,
  keeps_rows: bool,
) -> None:
  """Raises if trial steps and losses would not be those of the round."""
  if has_own_step or keeps_rows:
    raise declared.FieldError(
      "line_search",
      "A line search goes with SGD at the server, and clients that keep "
      "nothing: leave it out, or finalizer, personal_lam and "
      "keeps_optimizer_state.",
    )
  if server_optimizer and not checking.is_plain_sgd(server_optimizer):
    raise declared.FieldError(
      "server_optimizer",
      "A line search tries steps of several lengths along one direction, as "
      "SGD without momentum takes them. Leave server_optimizer out, or take "
      "tff.learning.optimizers.build_sgdm(learning_rate).",
    )
  if settings.loss_at != "before":
    raise declared.FieldError(
      "loss_at",
      "A line search compares the losses after a step with those before "
      f"training, found loss_at={settings.loss_at!r}. Leave loss_at out.",
    )
