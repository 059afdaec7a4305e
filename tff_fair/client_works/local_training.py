"""Local training of a model on a client's examples, inside a computation."""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import checks
from tff_fair.client_works import batches, local_model
from tff_fair.client_works import tally as tallies

LOSS_AT = ("before", "training")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainingSettings:
  """How clients train.

  Attributes:
    batch_size: Examples in a minibatch: each element of a client's data is
      sliced. `None` takes each element as one minibatch.
    local_epochs: How often a client runs over its data.
    loss_at: Where f_k is taken: "before" training, in a pass of its own in
      inference mode, or "training", the mean over the local steps.
    shuffle_seed: With `batch_size`: shuffles the examples of each element anew
      for each round and epoch, by this seed and the client's id. `None` keeps
      their order.
    proximal_mu: Weight of the proximal term mu/2 ||w - theta||^2 that is added
      to the local loss (FedProx); 0 adds none. Signals leave it out.
  """

  batch_size: int | None = None
  local_epochs: int = 1
  loss_at: str = "before"
  shuffle_seed: int | None = None
  proximal_mu: float = 0.0

  def __post_init__(self) -> None:
    """Checks the settings.

    Raises:
      TypeError: If a setting has the wrong type.
      ValueError: If it is out of range, or settings exclude each other.
    """
    if self.batch_size is not None:
      checks.check_integer("batch_size", self.batch_size, minimum=1)
    checks.check_integer("local_epochs", self.local_epochs, minimum=1)
    checks.check_choice("loss_at", self.loss_at, LOSS_AT)
    checks.check_number("proximal_mu", self.proximal_mu, minimum=0)
    if self.shuffle_seed is not None:
      checks.check_integer("shuffle_seed", self.shuffle_seed, minimum=0)
      if self.batch_size is None:
        raise ValueError(
          "A shuffle_seed needs a batch_size: without one, each element of a "
          "client's data is a minibatch already. Shuffle the dataset instead."
        )


class Progress(NamedTuple):
  """What local training carries from step to step.

  Attributes:
    trainable: The weights so far, a flat tuple.
    optimizer: The state of the client optimizer.
    tally: Loss and accuracy during training.
    client_id: int64[]; 0 without examples.
    num_steps: int64[], optimizer steps taken.
    num_elements: int64[], elements of the data seen, over all epochs.
  """

  trainable: Any
  optimizer: Any
  tally: tallies.Tally
  client_id: Any
  num_steps: Any
  num_elements: Any


def train(
  model: local_model.LocalModel,
  settings: TrainingSettings,
  optimizer: tff.learning.optimizers.Optimizer,
  state: Any,
  received: tuple[Any, ...],
  data: tf.data.Dataset,
) -> Progress:
  """Takes one optimizer step per minibatch, over all epochs.

  Args:
    model: The model, which has received its weights.
    settings: How to train.
    optimizer: The client optimizer.
    state: `optimizer`, its hyperparameters, and `round_num`, the round.
    received: theta, the trainable weights to start from, a flat tuple.
    data: Elements `(client_id, examples)`.
  """
  specs = tuple(tf.TensorSpec(w.shape, w.dtype) for w in received)
  zero = tf.zeros([], tf.int64)
  start = Progress(
    received,
    optimizer.set_hparams(optimizer.initialize(specs), state["optimizer"]),
    tallies.start(model),
    client_id=zero,
    num_steps=zero,
    num_elements=zero,
  )

  def step(progress: Progress, batch: Any) -> Progress:
    gradients, output = model.gradients(
      progress.trainable, progress.tally.metrics, batch
    )
    if settings.proximal_mu:
      gradients = _add_proximal(
        settings.proximal_mu, gradients, progress.trainable, received
      )
    optimizer_state, trainable = optimizer.next(
      progress.optimizer, progress.trainable, gradients
    )
    return progress._replace(
      trainable=trainable,
      optimizer=optimizer_state,
      tally=tallies.add(progress.tally, batch, output),
      num_steps=progress.num_steps + 1,
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

  return batches.reduce_elements(
    data.repeat(settings.local_epochs), start, over_element
  )


def _add_proximal(
  mu: float, gradients: Any, trainable: Any, received: Any
) -> tuple[Any, ...]:
  """Returns the gradients plus mu (w - theta)."""
  dense = tff.learning.optimizers.handle_indexed_slices_gradients(gradients)
  return tuple(
    mu * (w - theta) + (0.0 if gradient is None else gradient)
    for gradient, w, theta in zip(dense, trainable, received, strict=True)
  )
