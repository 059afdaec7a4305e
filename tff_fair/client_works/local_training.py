"""Trains a model on a client's examples, inside a computation."""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works import (
  batches,
  client_optimizer,
  local_model,
  tally as tallies,
  training_settings,
)
from tff_fair.client_works.tracing import with_autograph
from tff_fair.client_works.training_settings import (
  RoundState,
  TrainingSettings,
  num_epochs,
  num_steps,
)
from tff_fair.types import TensorStructure


class Measures(NamedTuple):
  """What training measures: a tally, and the probe of effective steps."""

  tally: tallies.Tally
  probe: client_optimizer.Probe


class Progress(NamedTuple):
  """The state of local training between two steps."""

  trainable: local_model.Trainable  # The weights so far, a flat tuple.
  optimizer: TensorStructure  # The state of the client optimizer.
  client_id: tf.Tensor  # int64[]; 0 without examples.
  # int64[], the number of elements seen so far, over all epochs.
  num_elements: tf.Tensor
  measures: Measures | tuple[()]  # `()` if nothing is measured.
  steps_left: tf.Tensor  # int64[]; 0 without `local_steps`.
  num_steps: tf.Tensor  # int64[]; 0 if steps are not counted.
  # The weights at the snapshot; `()` without one.
  snapshot: local_model.Trainable | tuple[()]


def train(
  model: local_model.LocalModel,
  settings: TrainingSettings,
  optimizer: tff.learning.optimizers.Optimizer,
  state: RoundState,
  received: local_model.Trainable,
  data: batches.ClientData,
  *,
  states: client_optimizer.OptimizerStates | None = None,
  correction: local_model.Trainable | None = None,
  snapshot_at: tf.Tensor | None = None,
) -> tuple[Progress, Measures]:
  """Trains a model, with one optimizer step per minibatch.

  Training starts from theta (`received`), the centre of the proximal term.
  The optimizer starts from `states`, or is initialized if `states` is `None`;
  either way, it takes its hyperparameters from `state`. `correction`, if given,
  is added to each gradient. The snapshot is taken after step `snapshot_at`,
  int64[]. Steps are counted only with a correction or a snapshot. Returns the
  state after the last step, and the measures.
  """
  probe_hparams, probe_mu = client_optimizer.probe_settings(
    settings.proximal_mu, state["optimizer"]
  )
  if states is None:
    states = client_optimizer.initial_states(optimizer, received)
  measures = Measures(
    tallies.start(model, with_hits=settings.loss_at == "training"),
    client_optimizer.Probe(
      client_optimizer.PROBE_START,
      optimizer.set_hparams(states.probe, probe_hparams),
    ),
  )
  steps = _Steps(
    model,
    settings,
    optimizer,
    state,
    received,
    settings.proximal_mu,
    probe_mu=probe_mu,
    correction=correction,
    snapshot_at=snapshot_at,
  )
  trained = steps.take_all(received, states.model, data, measures)
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
  """Takes the steps of `train` from `start`, without measuring anything.

  `proximal_mu`, float32[], replaces the proximal weight of the settings.
  """
  steps = _Steps(
    model,
    settings,
    optimizer,
    state,
    received,
    settings.proximal_mu if proximal_mu is None else proximal_mu,
    no_metrics=model.empty_metrics(),
  )
  state_to_start = client_optimizer.initial_state(optimizer, start)
  return steps.take_all(start, state_to_start, data, ()).trainable


class EpochEnd(NamedTuple):
  """The state of training between two epochs."""

  trainable: local_model.Trainable
  optimizer: TensorStructure
  num_elements: tf.Tensor  # int64[], elements of the data seen so far.


def train_epoch(
  model: local_model.LocalModel,
  settings: TrainingSettings,
  optimizer: tff.learning.optimizers.Optimizer,
  state: RoundState,
  data: batches.ClientData,
  before: EpochEnd,
) -> EpochEnd:
  """Trains for one epoch, from the end of the previous epoch, `before`.

  So n calls equal a round of n epochs. The settings must have one epoch and no
  proximal term.
  """
  steps = _Steps(
    model,
    settings,
    optimizer,
    state,
    before.trainable,
    0.0,
    no_metrics=model.empty_metrics(),
  )
  after = steps.take_all(
    before.trainable, before.optimizer, data, (), before.num_elements
  )
  return EpochEnd(after.trainable, after.optimizer, after.num_elements)


@dataclasses.dataclass(frozen=True, eq=False)
class _Steps:
  """The steps of a client's training in a round."""

  model: local_model.LocalModel
  settings: TrainingSettings
  optimizer: tff.learning.optimizers.Optimizer
  state: RoundState  # Its "optimizer" has the hyperparameters of this round.
  received: local_model.Trainable  # theta, centre of the proximal term.
  proximal_mu: float | tf.Tensor  # mu, float32[] if a tensor.
  probe_mu: float | tf.Tensor = 0.0
  # The initial state of the model's metrics, needed if nothing is measured.
  no_metrics: TensorStructure = ()
  # A term to add to each gradient; `None` adds nothing.
  correction: local_model.Trainable | None = None
  # The step after which to take the snapshot, if any.
  snapshot_at: tf.Tensor | None = None

  def take_all(
    self,
    start: local_model.Trainable,
    optimizer_state: TensorStructure,
    data: batches.ClientData,
    measures: Measures | tuple[()],
    num_elements: tf.Tensor | None = None,
  ) -> Progress:
    """Takes all steps of a round, or of a further epoch.

    `num_elements`, int64[], is the number of elements seen in earlier epochs;
    `None` means 0.
    """
    settings, round_num = self.settings, self.state["round_num"]
    zero = tf.zeros([], tf.int64)
    first = Progress(
      start,
      self.optimizer.set_hparams(optimizer_state, self.state["optimizer"]),
      client_id=zero,
      num_elements=zero if num_elements is None else num_elements,
      measures=measures,
      steps_left=zero,
      num_steps=zero,
      snapshot=() if self.snapshot_at is None else start,
    )
    # The id is read only for random draws, since reading it takes time.
    is_drawn = isinstance(settings.local_steps or settings.local_epochs, tuple)
    client_id = data.client_id() if is_drawn else zero
    most = num_steps(settings, client_id, round_num)
    if most is None:
      epochs = num_epochs(settings, client_id, round_num)
      return data.reduce(first, self._train_on_element, epochs)
    return data.reduce_while(
      first._replace(steps_left=tf.cast(most, tf.int64)),
      self._train_on_element,
      lambda progress: progress.steps_left,
    )

  def _train_on_element(
    self, progress: Progress, element: batches.Element
  ) -> Progress:
    """Takes a step for each minibatch of an element's examples."""
    client_id, examples = element
    order = None
    if self.settings.shuffle_seed is not None:
      order = training_settings.permutation(
        batches.num_examples(examples),
        self.state["shuffle_seed"],
        client_id,
        self.state["round_num"],
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
    gradients, output = self.model.gradients(
      progress.trainable,
      measures.tally.metrics if measures else self.no_metrics,
      batch,
      training=True,
      objective=self.settings.objective,
    )
    if tf.is_tensor(self.proximal_mu) or self.proximal_mu:
      gradients = client_optimizer.add_proximal_gradient(
        gradients, self.proximal_mu, progress.trainable, self.received
      )
    if self.correction is not None:
      gradients = tuple(
        more if gradient is None else gradient + more
        for gradient, more in zip(gradients, self.correction, strict=True)
      )
    if self.correction is not None or self.snapshot_at is not None:
      progress = progress._replace(num_steps=progress.num_steps + 1)
    new_state, trainable = self._next(
      progress.optimizer, progress.trainable, gradients
    )
    if self.snapshot_at is not None:
      is_now = tf.equal(progress.num_steps, self.snapshot_at)
      progress = progress._replace(
        snapshot=tuple(
          tf.where(is_now, new, old)
          for new, old in zip(trainable, progress.snapshot, strict=True)
        )
      )
    if measures:
      measures = Measures(
        tallies.add(measures.tally, batch, output),
        client_optimizer.step_probe(measures.probe, self.probe_mu, self._next),
      )
    if self.settings.local_steps is not None:
      progress = progress._replace(steps_left=progress.steps_left - 1)
    return progress._replace(
      trainable=trainable, optimizer=new_state, measures=measures
    )

  @functools.cached_property
  def _next(self) -> Callable[..., Any]:
    return with_autograph(self.optimizer.next)


def _has_steps_left(progress: Progress) -> tf.Tensor:
  return progress.steps_left > 0
