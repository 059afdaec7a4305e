"""How clients train: the settings that all methods share."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tff_fair import checks, learning_rate_decay
from tff_fair.client_works import batches
from tff_fair.learning_rate_decay import Hparams

LOSS_AT = ("before", "training", "after")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
  """How clients train.

  Attributes:
    batch_size: Examples in a minibatch: each element of a client's data is
      sliced. `None` takes each element as one minibatch.
    local_epochs: How often a client runs over its data: a number, or (least,
      greatest), between which each client draws one in each round.
    local_epochs_seed: Seed of these draws, which depend on it, the client's id
      and the number of rounds in which any client counted. Nothing else is
      drawn from it.
    loss_at: Where f_k and a_k are taken: "before" training, in a pass of its
      own in inference mode; in "training", the means over the local steps; or
      "after" it, of the trained model, for comparison with code that does so.
    shuffle_seed: With `batch_size`: shuffles the examples of each element anew
      for each round and epoch, by this seed and the client's id. `None` keeps
      their order.
    proximal_mu: Weight of the proximal term mu/2 ||w - theta||^2 that is added
      to the local loss (FedProx); 0 adds none. Signals leave it out.
    learning_rate_decay: Factor of the client learning rate from
      one round to the next, in (0, 1], for "exponential" decay; or r >= 0 in
      eta / (1 + r t), for "inverse_time". `None` keeps it. Rounds t are counted
      from 0, those in which any client counted.
    learning_rate_decay_kind: "exponential" or "inverse_time".
    learning_rate_decay_rounds: In how many rounds n the rate decays once: t is
      then floor(t / n).
    objective: Function of a minibatch's mean loss to minimize; `None`
      is the loss itself. Signals leave it out.
  """

  batch_size: int | None = None
  local_epochs: int | tuple[int, int] = 1
  local_epochs_seed: int = 0
  loss_at: str = "before"
  shuffle_seed: int | None = None
  proximal_mu: float = 0.0
  learning_rate_decay: float | None = None
  learning_rate_decay_kind: str = "exponential"
  learning_rate_decay_rounds: int = 1
  objective: Callable[[tf.Tensor], tf.Tensor] | None = None

  def __post_init__(self) -> None:
    """Checks the settings.

    Raises:
      TypeError: If a setting has the wrong type.
      ValueError: If it is out of range, or settings exclude each other.
    """
    if self.batch_size is not None:
      checks.check_integer("batch_size", self.batch_size, minimum=1)
    self._check_local_epochs()
    checks.check_choice("loss_at", self.loss_at, LOSS_AT)
    checks.check_number(
      "proximal_mu", self.proximal_mu, minimum=0, in_float32=True
    )
    _decay(self)  # Checks its settings.
    if self.shuffle_seed is not None:
      checks.check_integer("shuffle_seed", self.shuffle_seed, minimum=0)
      if self.batch_size is None:
        raise checks.OptionError(
          "shuffle_seed",
          "A shuffle_seed needs a batch_size: without one, each element of a "
          "client's data is a minibatch already. Shuffle the dataset instead.",
        )

  def _check_local_epochs(self) -> None:
    checks.check_integer("local_epochs_seed", self.local_epochs_seed, minimum=0)
    if not isinstance(self.local_epochs, tuple):
      checks.check_integer("local_epochs", self.local_epochs, minimum=1)
      return
    if len(self.local_epochs) != 2:
      raise checks.OptionError(
        "local_epochs",
        "Expected local_epochs to be an integer or (least, greatest), found "
        f"{self.local_epochs!r}.",
      )
    least, greatest = self.local_epochs
    try:
      checks.check_integer("the least local_epochs", least, minimum=1)
      checks.check_integer("the greatest local_epochs", greatest, minimum=least)
    except checks.OptionError as error:
      raise checks.OptionError("local_epochs", str(error)) from error


def num_epochs(
  settings: TrainingSettings,
  client_id: int | tf.Tensor,
  round_num: int | tf.Tensor,
) -> int | tf.Tensor:
  """Returns how often a client runs over its data in a round.

  Args:
    settings: How to train.
    client_id: int64[].
    round_num: int64[], t.

  Returns:
    The number; an int64[] where it is drawn.
  """
  if not isinstance(settings.local_epochs, tuple):
    return settings.local_epochs
  return batches.drawn_between(
    *settings.local_epochs, settings.local_epochs_seed, client_id, round_num
  )


def decayed_hparams(
  settings: TrainingSettings, hparams: Hparams, round_num: tf.Tensor
) -> Hparams:
  """Returns the hyperparameters of the client optimizer in a round.

  Args:
    settings: How to train.
    hparams: The hyperparameters before any decay.
    round_num: int64[], t.
  """
  decay = _decay(settings)
  return hparams if decay is None else decay.apply(hparams, round_num)


def _decay(
  settings: TrainingSettings,
) -> learning_rate_decay.LearningRateDecay | None:
  return learning_rate_decay.build(
    "learning_rate_decay",
    settings.learning_rate_decay,
    settings.learning_rate_decay_kind,
    settings.learning_rate_decay_rounds,
  )
