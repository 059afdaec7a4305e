"""Local training of a model on a client's examples, inside a computation."""

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import checks, learning_rate_decay
from tff_fair.client_works import batches, local_model
from tff_fair.client_works import tally as tallies

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
    learning_rate_decay: What the client learning rate is multiplied with from
      one round to the next, in (0, 1], for "exponential" decay; or r >= 0 in
      eta / (1 + r t), for "inverse_time". `None` keeps it. Rounds t are counted
      from 0, those in which any client counted.
    learning_rate_decay_kind: "exponential" or "inverse_time".
    objective: What clients minimize, from the mean loss of a minibatch; `None`
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
    checks.check_number("proximal_mu", self.proximal_mu, minimum=0)
    _decay(self)  # Checks its settings.
    if self.shuffle_seed is not None:
      checks.check_integer("shuffle_seed", self.shuffle_seed, minimum=0)
      if self.batch_size is None:
        raise ValueError(
          "A shuffle_seed needs a batch_size: without one, each element of a "
          "client's data is a minibatch already. Shuffle the dataset instead."
        )

  def _check_local_epochs(self) -> None:
    checks.check_integer("local_epochs_seed", self.local_epochs_seed, minimum=0)
    if not isinstance(self.local_epochs, tuple):
      checks.check_integer("local_epochs", self.local_epochs, minimum=1)
      return
    if len(self.local_epochs) != 2:
      raise ValueError(
        "Expected local_epochs to be an integer or (least, greatest), found "
        f"{self.local_epochs!r}."
      )
    least, greatest = self.local_epochs
    checks.check_integer("the least local_epochs", least, minimum=1)
    checks.check_integer("the greatest local_epochs", greatest, minimum=least)


class Progress(NamedTuple):
  """What local training carries from step to step.

  Attributes:
    trainable: The weights so far, a flat tuple.
    optimizer: The state of the client optimizer.
    tally: Loss and accuracy during training.
    client_id: int64[]; 0 without examples.
    probe: A weight under the constant gradient one and its optimizer state.
    num_elements: int64[], elements of the data seen, over all epochs.
  """

  trainable: Any
  optimizer: Any
  tally: tallies.Tally
  client_id: Any
  probe: Any
  num_elements: Any


def num_epochs(
  settings: TrainingSettings, client_id: Any, round_num: Any
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
  settings: TrainingSettings, hparams: Any, round_num: tf.Tensor
) -> Any:
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
  )


def train(
  model: local_model.LocalModel,
  settings: TrainingSettings,
  optimizer: tff.learning.optimizers.Optimizer,
  state: Any,
  received: tuple[Any, ...],
  data: batches.ClientData,
  *,
  start: tuple[Any, ...] | None = None,
) -> Progress:
  """Takes one optimizer step per minibatch, over all epochs.

  Args:
    model: The model, which has received its weights.
    settings: How to train.
    optimizer: The client optimizer.
    state: `optimizer`, its hyperparameters this round, and `round_num`.
    received: theta, which the proximal term pulls towards, a flat tuple.
    data: The client's data.
    start: The trainable weights to start from; `None` is `received`.
  """
  key = tff.learning.optimizers.LEARNING_RATE_KEY
  hparams = state["optimizer"]

  def optimizer_state(weights: tuple[Any, ...], hparams: Any) -> Any:
    specs = tuple(tf.TensorSpec(w.shape, w.dtype) for w in weights)
    return optimizer.set_hparams(optimizer.initialize(specs), hparams)

  # The probe moves in units of the learning rate, which keeps its sums exact;
  # so it feels the proximal term times that rate. Where the rate is no
  # hyperparameter, the probe moves in the weights' own unit.
  probe_hparams, probe_mu = hparams, settings.proximal_mu
  if key in hparams:
    probe_hparams = collections.OrderedDict(
      [*hparams.items(), (key, tf.ones_like(hparams[key]))]
    )
    probe_mu = settings.proximal_mu * tf.cast(hparams[key], tf.float32)
    if "weight_decay" in hparams:  # AdamW's, which is such a pull too.
      probe_hparams["weight_decay"] *= hparams[key]

  zero = tf.zeros([], tf.int64)
  probe = (tf.zeros([], tf.float32),)
  first = Progress(
    received if start is None else start,
    optimizer_state(received, hparams),
    tallies.start(model, with_hits=settings.loss_at == "training"),
    client_id=zero,
    probe=(probe, optimizer_state(probe, probe_hparams)),
    num_elements=zero,
  )

  def step(progress: Progress, batch: Any) -> Progress:
    gradients, output = model.gradients(
      progress.trainable,
      progress.tally.metrics,
      batch,
      training=True,
      objective=settings.objective,
    )
    new_state, trainable = optimizer.next(
      progress.optimizer,
      progress.trainable,
      gradients
      if not settings.proximal_mu
      else _with_proximal(
        settings.proximal_mu, gradients, progress.trainable, received
      ),
    )
    moved, moved_state = progress.probe
    moved_state, moved = optimizer.next(
      moved_state,
      moved,
      _with_proximal(probe_mu, (tf.ones([]),), moved, probe),
    )
    return progress._replace(
      trainable=trainable,
      optimizer=new_state,
      tally=tallies.add(progress.tally, batch, output),
      probe=(moved, moved_state),
    )

  def over_element(progress: Progress, element: Any) -> Progress:
    client_id, examples = element
    order = None
    if settings.shuffle_seed is not None:
      order = batches.shuffled(
        batches.num_examples(examples),
        settings.shuffle_seed,
        client_id,
        state["round_num"],
        progress.num_elements,
      )
    progress = progress._replace(
      client_id=client_id, num_elements=progress.num_elements + 1
    )
    return batches.reduce_slices(
      examples, settings.batch_size, progress, step, order
    )

  # Asked for only where somebody draws: it takes a look at the data.
  is_drawn = isinstance(settings.local_epochs, tuple)
  client_id = data.client_id() if is_drawn else zero
  epochs = num_epochs(settings, client_id, state["round_num"])
  return data.reduce(first, over_element, epochs)


def _with_proximal(
  mu: Any, gradients: Any, trainable: Any, received: Any
) -> tuple[Any, ...]:
  """Returns the gradients plus mu (w - theta)."""
  return tuple(
    mu * (w - theta) + (0.0 if gradient is None else gradient)
    for gradient, w, theta in zip(gradients, trainable, received, strict=True)
  )
