"""Runs one client's round: evaluates, trains, and reports the update."""

import collections
import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.client_works import (
  batches,
  evaluation,
  group_weights,
  local_model,
  local_training,
  tally as tallies,
  training_settings,
)
from tff_fair.client_works.client_optimizer import OptimizerStates
from tff_fair.client_works.training_settings import RoundState
from tff_fair.kernels import norms, stacking
from tff_fair.optimizers.learning_rate_decay import Hparams

# A client's report: a `ClientResult`, and values to sum over clients, by name.
Result: TypeAlias = tuple[
  tff.learning.templates.ClientResult, Mapping[str, types.TensorStructure]
]


class PostTrainingState(NamedTuple):
  """The results of training that a client does not report."""

  states: OptimizerStates
  num_steps: tf.Tensor  # int64[], K_k, number of steps; 0 if not counted.
  # float32[], eta of the round; 0 if the optimizer has no learning rate.
  learning_rate: tf.Tensor


class _TrainedClient(NamedTuple):
  """A client's trained weights, and all that was measured in training."""

  client_id: tf.Tensor  # int64[]; 0 without examples.
  num_examples: tf.Tensor  # int64[], n_k.
  trainable: local_model.Trainable  # theta_k, a flat tuple.
  update: list[tf.Tensor]  # Delta_k, a flat list.
  measures: local_training.Measures
  post_training: PostTrainingState
  metrics: types.TensorStructure  # The model's metrics during training.
  # theta minus the weights at the snapshot, float[1, weights]; `None` without
  # a snapshot.
  snapshot: tf.Tensor | None
  # float64[2, groups]: for each group of people, the sum of losses of the model
  # theta and the number of examples; `None` without groups.
  group_sums: tf.Tensor | None


@dataclasses.dataclass(frozen=True)
class ClientRound:
  """One client's work in a round, inside a computation."""

  model: local_model.LocalModel
  optimizer: tff.learning.optimizers.Optimizer
  settings: training_settings.TrainingSettings
  signals: Collection[str]
  data: batches.ClientData

  def run(
    self,
    state: RoundState,
    received: Any,
    states: OptimizerStates | None = None,
    correction: local_model.Trainable | None = None,
  ) -> tuple[Result, PostTrainingState]:
    """Evaluates and trains; returns the report and the `PostTrainingState`.

    `local_training.train` explains `states` and `correction`. From the
    `PostTrainingState`, the caller updates the state that the client keeps.
    """
    weights, initial_loss = self._weights_and_initial_loss(received)
    before, gradient_norm = self._evaluate_before_training(weights)
    trained = self._train(state, weights, states, correction)
    loss, accuracy = self._loss_and_accuracy(
      before, trained.trainable, trained.measures.tally
    )
    result = self._result(
      weights,
      trained,
      types.ClientSignals(
        client_id=trained.client_id,
        num_examples=tf.cast(trained.num_examples, tf.float32),
        loss=loss,
        accuracy=tallies.or_zero(accuracy),
        learning_rate=trained.post_training.learning_rate,
        effective_steps=trained.measures.probe.effective_steps,
        gradient_norm=gradient_norm,
        initial_loss=initial_loss,
      ),
    )
    return result, trained.post_training

  def measure(self, state: RoundState, received: Any) -> types.ClientSignals:
    """Returns the signals that `run` reports with `loss_at="before"`.

    Only `effective_steps` differs: it is 0, because only training measures it.
    """
    weights, initial_loss = self._weights_and_initial_loss(received)
    before, gradient_norm = self._evaluate_before_training(weights)
    assert before is not None
    return types.ClientSignals(
      client_id=before.client_id,
      num_examples=tf.cast(before.num_examples, tf.float32),
      loss=before.loss,
      accuracy=tallies.or_zero(before.accuracy),
      learning_rate=_learning_rate(self.hparams(state)),
      effective_steps=tf.zeros([]),
      gradient_norm=gradient_norm,
      initial_loss=initial_loss,
    )

  def train(
    self,
    state: RoundState,
    received: Any,
    measured: types.ClientSignals,
    states: OptimizerStates | None = None,
    correction: local_model.Trainable | None = None,
  ) -> tuple[Result, PostTrainingState]:
    """Trains like `run`, but reports signals `measured` in an earlier phase.

    If the measured loss is not finite, the client is excluded.
    """
    weights = self.current_weights(received)
    trained = self._train(state, weights, states, correction)
    return self._result(weights, trained, measured), trained.post_training

  def current_weights(self, received: Any) -> tff.learning.models.ModelWeights:
    """Returns theta, the current weights, from what the client received."""
    return received["current"] if self._knows_initial_weights else received

  @property
  def _knows_initial_weights(self) -> bool:
    return "initial_loss" in self.signals

  def _weights_and_initial_loss(
    self, received: Any
  ) -> tuple[tff.learning.models.ModelWeights, tf.Tensor]:
    """Returns theta, and the initial model's loss; 0 if the rule ignores it."""
    initial_loss = tf.zeros([])
    if self._knows_initial_weights:
      initial_loss = self._evaluate(received["initial"]).loss
    return self.current_weights(received), initial_loss

  def hparams(self, state: RoundState) -> Hparams:
    """Returns the client optimizer's hyperparameters in this round."""
    return training_settings.decayed_hparams(
      self.settings, state["optimizer"], state["round_num"]
    )

  def _train(
    self,
    state: RoundState,
    weights: tff.learning.models.ModelWeights,
    states: OptimizerStates | None,
    correction: local_model.Trainable | None,
  ) -> _TrainedClient:
    """Trains the model, from `weights` and the optimizer's `states`."""
    model = self.model
    theta = local_model.flatten(weights.trainable)
    model.receive(weights)
    hparams = self.hparams(state)
    group_sums = None
    if self.settings.groups is not None:
      assert isinstance(model, group_weights.WeightedModel)
      model.weights = self.settings.groups.example_weights(state)
      group_sums = model.group_sums(
        theta, self.data, self._evaluation_batch_size
      )
    snapshot_at = None
    if self.settings.takes_snapshot:
      assert isinstance(self.settings.local_steps, int)
      snapshot_at = training_settings.snapshot_step(
        self.settings.local_steps, state["shuffle_seed"], state["round_num"]
      )
    trained, measures = local_training.train(
      model,
      self.settings,
      self.optimizer,
      {**state, "optimizer": hparams},
      theta,
      self.data,
      states=states,
      correction=correction,
      snapshot_at=snapshot_at,
    )
    return _TrainedClient(
      client_id=trained.client_id,
      num_examples=self._num_examples(trained.client_id, state, measures),
      trainable=trained.trainable,
      # Initial minus trained weights: the update points like a gradient.
      update=[w - v for w, v in zip(theta, trained.trainable, strict=True)],
      measures=measures,
      post_training=PostTrainingState(
        OptimizerStates(trained.optimizer, measures.probe.optimizer),
        trained.num_steps,
        _learning_rate(hparams),
      ),
      # Metrics are read now, since the next pass over the data resets them.
      metrics=model.unfinalized_metrics(measures.tally.metrics),
      snapshot=None
      if snapshot_at is None
      else stacking.flatten_update(
        [w - v for w, v in zip(theta, trained.snapshot, strict=True)]
      ),
      group_sums=group_sums,
    )

  def _num_examples(
    self,
    client_id: tf.Tensor,
    state: RoundState,
    measures: local_training.Measures,
  ) -> tf.Tensor:
    """Returns n_k, int64[], the number of the client's training examples."""
    if self.settings.local_steps is not None:
      # Steps may use an example several times or never; the tally counts uses.
      return self.data.num_rows()
    return measures.tally.num_examples // training_settings.num_epochs(
      self.settings, client_id, state["round_num"]
    )

  def _result(
    self,
    weights: tff.learning.models.ModelWeights,
    trained: _TrainedClient,
    signals: types.ClientSignals,
  ) -> Result:
    """Returns the client's report; an excluded client reports 0 examples."""
    model = self.model
    sums = trained.group_sums
    finite = [signals.loss, trained.update, *([] if sums is None else [sums])]
    counts = tf.logical_and(norms.all_finite(finite), trained.num_examples > 0)
    result = tff.learning.templates.ClientResult(
      tf.nest.pack_sequence_as(weights.trainable, trained.update),
      signals._replace(
        num_examples=tf.where(counts, signals.num_examples, 0.0)
      ),
    )
    # NaN metrics of an excluded client would make the round's metrics NaN.
    metrics = tf.cond(
      counts,
      lambda: trained.metrics,
      lambda: model.unfinalized_metrics(model.empty_metrics()),
    )
    tally = collections.OrderedDict(
      metrics=metrics, num_counted=tf.cast(counts, tf.int32)
    )
    if trained.snapshot is not None:
      row = trained.snapshot[0]
      tally["snapshot"] = tf.where(counts, row, tf.zeros_like(row))
    if sums is not None:
      tally[group_weights.SUMS] = tf.where(counts, sums, tf.zeros_like(sums))
    return result, tally

  @property
  def _evaluation_batch_size(self) -> int | None:
    return self.settings.batch_size and evaluation.EVALUATION_BATCH_SIZE

  def _evaluate_before_training(
    self, weights: tff.learning.models.ModelWeights
  ) -> tuple[evaluation.Evaluation | None, tf.Tensor]:
    """Evaluates theta before training; also returns G_k, the gradient's norm.

    If the rule does not need G_k, then G_k is 0, and theta is evaluated only if
    `loss_at` is "before"; otherwise, the evaluation is `None`.
    """
    if "gradient_norm" in self.signals:
      self.model.receive(weights)
      return evaluation.evaluate_with_gradient(
        self.model,
        local_model.flatten(weights.trainable),
        self.data,
        self._evaluation_batch_size,
      )
    before = None
    if self.settings.loss_at == "before":
      before = self._evaluate(weights)
    return before, tf.zeros([])

  def _evaluate(
    self, weights: tff.learning.models.ModelWeights
  ) -> evaluation.Evaluation:
    self.model.receive(weights)
    return evaluation.evaluate(
      self.model,
      local_model.flatten(weights.trainable),
      self.data,
      self._evaluation_batch_size,
    )

  def _loss_and_accuracy(
    self,
    before: evaluation.Evaluation | None,
    trainable: local_model.Trainable,
    tally: tallies.Tally,
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the loss and the accuracy, measured when `loss_at` says."""
    if self.settings.loss_at == "before" and before is not None:
      return before.loss, before.accuracy
    if self.settings.loss_at == "after":
      after = evaluation.evaluate(
        self.model, trainable, self.data, self._evaluation_batch_size
      )
      return after.loss, after.accuracy
    return tallies.mean_loss(tally), tallies.accuracy(self.model, tally)


def _learning_rate(hparams: Hparams) -> tf.Tensor:
  """Returns eta, float32[]; 0 if the optimizer has none."""
  rate = hparams.get(tff.learning.optimizers.LEARNING_RATE_KEY, 0.0)
  return tf.cast(rate, tf.float32)
