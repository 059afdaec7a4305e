"""Local training of a model on a client's examples, inside a computation."""

import collections
from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works import batches, local_model
from tff_fair.client_works import tally as tallies
from tff_fair.client_works.training_settings import (
  TrainingSettings,
  num_epochs,
  num_steps,
)
from tff_fair.learning_rate_decay import Hparams
from tff_fair.tracing import with_autograph
from tff_fair.types import TensorStructure

# The weight of the probe before the first step, a flat tuple.
_PROBE = (np.zeros([], np.float32),)


class RoundState(TypedDict):
  """The state of the training at the server.

  Attributes:
    optimizer: The hyperparameters of the client optimizer.
    round_num: int64[], the number of rounds in which any client counted.
  """

  optimizer: Hparams
  round_num: tf.Tensor


class Measures(NamedTuple):
  """What is measured beside the training.

  Attributes:
    tally: Loss and accuracy during training.
    probe: A weight under the constant gradient one and its optimizer state.
  """

  tally: tallies.Tally
  probe: tuple[local_model.Trainable, TensorStructure]


class OptimizerStates(NamedTuple):
  """The states of a client optimizer.

  Attributes:
    model: Its state for the trainable weights.
    probe: Its state for the probe; see `Measures`.
  """

  model: TensorStructure
  probe: TensorStructure


class Progress(NamedTuple):
  """The state of local training between two steps.

  Attributes:
    trainable: The weights so far, a flat tuple.
    optimizer: The state of the client optimizer.
    client_id: int64[]; 0 without examples.
    num_elements: int64[], elements of the data seen, over all epochs.
    measures: What is measured beside it; `()` where nobody asks.
    steps_left: int64[], steps to take; 0 where epochs count.
  """

  trainable: local_model.Trainable
  optimizer: TensorStructure
  client_id: tf.Tensor
  num_elements: tf.Tensor
  measures: Measures | tuple[()]
  steps_left: tf.Tensor


def train(
  model: local_model.LocalModel,
  settings: TrainingSettings,
  optimizer: tff.learning.optimizers.Optimizer,
  state: RoundState,
  received: local_model.Trainable,
  data: batches.ClientData,
  *,
  states: OptimizerStates | None = None,
) -> tuple[Progress, Measures]:
  """Takes one optimizer step per minibatch, over all epochs or local steps.

  Args:
    model: The model, which has received its weights.
    settings: How to train.
    optimizer: The client optimizer.
    state: `optimizer`, its hyperparameters this round, and `round_num`.
    received: theta, to start from, which the proximal term pulls towards, a
      flat tuple.
    data: The client's data.
    states: Those that the optimizer goes on from; `None` starts it anew. The
      hyperparameters are this round's in either case.
  """
  hparams = state["optimizer"]
  probe_hparams, probe_mu = probe_settings(settings.proximal_mu, hparams)
  if states is None:
    states = initial_states(optimizer, received)
  measures = Measures(
    tallies.start(model, with_hits=settings.loss_at == "training"),
    (_PROBE, optimizer.set_hparams(states.probe, probe_hparams)),
  )
  steps = _Steps(
    model, settings, optimizer, state["round_num"], received, probe_mu
  )
  trained = _over_all(steps, state, received, states.model, data, measures)
  assert isinstance(trained.measures, Measures)
  return trained, trained.measures


def train_weights(
  model: local_model.LocalModel,
  settings: TrainingSettings,
  optimizer: tff.learning.optimizers.Optimizer,
  state: RoundState,
  received: local_model.Trainable,
  data: batches.ClientData,
  *,
  start: local_model.Trainable,
  proximal_mu: tf.Tensor | None = None,
) -> local_model.Trainable:
  """Takes the same steps from other weights, and measures nothing.

  Args:
    model: As `train` takes it, and so are those that follow.
    settings: How to train.
    optimizer: The client optimizer.
    state: The state of the training.
    received: What the proximal term pulls towards.
    data: The client's data.
    start: The trainable weights to start from, a flat tuple.
    proximal_mu: float32[], the client's own weight of the proximal term; `None`
      takes that of the settings.

  Returns:
    The trained weights.
  """
  steps = _Steps(
    model,
    settings,
    optimizer,
    state["round_num"],
    received,
    no_metrics=model.empty_metrics(),
    proximal_mu=proximal_mu,
  )
  return _over_all(
    steps, state, start, _initial_state(optimizer, start), data, ()
  ).trainable


def _over_all(
  steps: "_Steps",
  state: RoundState,
  start: local_model.Trainable,
  optimizer_state: TensorStructure,
  data: batches.ClientData,
  measures: Measures | tuple[()],
) -> Progress:
  zero = tf.zeros([], tf.int64)
  first = Progress(
    start,
    steps.optimizer.set_hparams(optimizer_state, state["optimizer"]),
    client_id=zero,
    num_elements=zero,
    measures=measures,
    steps_left=zero,
  )
  settings = steps.settings
  # Asked for only where somebody draws: it takes a look at the data.
  is_drawn = isinstance(settings.local_steps or settings.local_epochs, tuple)
  client_id = data.client_id() if is_drawn else zero
  most = num_steps(settings, client_id, state["round_num"])
  if most is None:
    epochs = num_epochs(settings, client_id, state["round_num"])
    return data.reduce(first, steps.over_element, epochs)
  return data.reduce_while(
    first._replace(steps_left=tf.cast(most, tf.int64)),
    steps.over_element,
    lambda progress: progress.steps_left,
  )


def probe_settings(
  mu: float, hparams: Hparams
) -> tuple[Hparams, float | tf.Tensor]:
  """Returns the hyperparameters and the proximal weight of the probe.

  The probe moves in units of the learning rate, which keeps its sums exact; so
  it feels the proximal term times that rate. Where the rate is no
  hyperparameter, the probe moves in the weights' own unit.

  Args:
    mu: The proximal weight.
    hparams: The hyperparameters of the client optimizer this round.
  """
  key = tff.learning.optimizers.LEARNING_RATE_KEY
  if key not in hparams:
    return hparams, mu
  rate = hparams[key]
  probe_hparams = collections.OrderedDict(
    [*hparams.items(), (key, tf.ones_like(rate))]
  )
  if "weight_decay" in hparams:  # AdamW's, which is such a pull too.
    probe_hparams["weight_decay"] *= rate
  return probe_hparams, mu * tf.cast(rate, tf.float32)


def initial_states(
  optimizer: tff.learning.optimizers.Optimizer, weights: local_model.Trainable
) -> OptimizerStates:
  """Returns the states of an optimizer that starts anew.

  Args:
    optimizer: The client optimizer.
    weights: Those it moves, a flat tuple.
  """
  return OptimizerStates(
    _initial_state(optimizer, weights), _initial_state(optimizer, _PROBE)
  )


def _initial_state(
  optimizer: tff.learning.optimizers.Optimizer, weights: tuple[tf.Tensor, ...]
) -> TensorStructure:
  return optimizer.initialize(
    tuple(tf.TensorSpec(w.shape, w.dtype) for w in weights)
  )


class _Steps:
  """The steps of a client's training in a round.

  Attributes:
    settings: How to train.
    optimizer: The client optimizer.
  """

  def __init__(
    self,
    model: local_model.LocalModel,
    settings: TrainingSettings,
    optimizer: tff.learning.optimizers.Optimizer,
    round_num: tf.Tensor,
    received: local_model.Trainable,
    probe_mu: float | tf.Tensor = 0.0,
    no_metrics: TensorStructure = (),
    proximal_mu: tf.Tensor | None = None,
  ) -> None:
    self.settings = settings
    self.optimizer = optimizer
    self._model = model
    self._next = with_autograph(optimizer.next)
    self._round_num = round_num
    self._received = received
    self._probe_mu = probe_mu
    self._no_metrics = no_metrics
    self._proximal_mu = proximal_mu

  def over_element(
    self, progress: Progress, element: batches.Element
  ) -> Progress:
    """Takes a step for each minibatch of `(client_id, examples)`."""
    client_id, examples = element
    order = None
    if self.settings.shuffle_seed is not None:
      order = batches.shuffled(
        batches.num_examples(examples),
        self.settings.shuffle_seed,
        client_id,
        self._round_num,
        progress.num_elements,
      )
    progress = progress._replace(
      client_id=client_id, num_elements=progress.num_elements + 1
    )
    return batches.reduce_slices(
      examples,
      self.settings.batch_size,
      progress,
      self._step,
      order,
      None if self.settings.local_steps is None else _has_steps_left,
    )

  def _step(self, progress: Progress, batch: batches.Batch) -> Progress:
    measures = progress.measures
    gradients, output = self._model.gradients(
      progress.trainable,
      measures.tally.metrics if measures else self._no_metrics,
      batch,
      training=True,
      objective=self.settings.objective,
    )
    mu = self.settings.proximal_mu
    if self._proximal_mu is not None or mu:
      gradients = _with_proximal(
        mu if self._proximal_mu is None else self._proximal_mu,
        gradients,
        progress.trainable,
        self._received,
      )
    new_state, trainable = self._next(
      progress.optimizer, progress.trainable, gradients
    )
    if measures:
      measures = Measures(
        tallies.add(measures.tally, batch, output),
        self._moved_probe(*measures.probe),
      )
    if self.settings.local_steps is not None:
      progress = progress._replace(steps_left=progress.steps_left - 1)
    return progress._replace(
      trainable=trainable, optimizer=new_state, measures=measures
    )

  def _moved_probe(
    self, weight: local_model.Trainable, state: TensorStructure
  ) -> tuple[local_model.Trainable, TensorStructure]:
    gradient = _with_proximal(self._probe_mu, (tf.ones([]),), weight, _PROBE)
    new_state, moved = self._next(state, weight, gradient)
    return moved, new_state


def _has_steps_left(progress: Progress) -> tf.Tensor:
  return progress.steps_left > 0


def _with_proximal(
  mu: float | tf.Tensor,
  gradients: Sequence[tf.Tensor | None],
  trainable: Sequence[tf.Tensor],
  received: Sequence[tf.Tensor],
) -> tuple[tf.Tensor, ...]:
  """Returns the gradients plus mu (w - theta)."""
  return tuple(
    mu * (w - theta) + (0.0 if gradient is None else gradient)
    for gradient, w, theta in zip(gradients, trainable, received, strict=True)
  )
