"""One client's round: it evaluates, trains, and reports update and signals."""

import collections
import dataclasses
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.client_works import (
  batches,
  evaluation,
  local_model,
  local_training,
  training_settings,
)
from tff_fair.client_works import tally as tallies
from tff_fair.kernels import finiteness
from tff_fair.learning_rate_decay import Hparams

# A client's result, and its terms of sums over all clients.
Result: TypeAlias = tuple[
  tff.learning.templates.ClientResult, Mapping[str, types.TensorStructure]
]


@dataclasses.dataclass(frozen=True)
class ClientRound:
  """One client's work in a round, inside a computation."""

  model: local_model.LocalModel
  optimizer: tff.learning.optimizers.Optimizer
  settings: training_settings.TrainingSettings
  signals: Collection[str]
  data: batches.ClientData

  def run(self, state: local_training.RoundState, received: Any) -> Result:
    """Returns the client's result, and its terms of sums over all clients."""
    model = self.model
    initial_loss = tf.zeros([])
    weights = received
    if "initial_loss" in self.signals:
      weights = received["current"]
      initial_loss = self._evaluate(received["initial"]).loss
    theta = local_model.flat(weights.trainable)

    before, gradient_norm = self._before_training(weights, theta)

    model.receive(weights)
    hparams = training_settings.decayed_hparams(
      self.settings, state["optimizer"], state["round_num"]
    )
    trained, measures = local_training.train(
      model,
      self.settings,
      self.optimizer,
      {"optimizer": hparams, "round_num": state["round_num"]},
      theta,
      self.data,
    )
    # Reported before any further pass makes the model forget them.
    metrics = model.unfinalized_metrics(measures.tally.metrics)
    loss, accuracy = self._loss_and_accuracy(
      before, trained.trainable, measures.tally
    )
    # Delta_k = theta - theta_k
    update = [w - v for w, v in zip(theta, trained.trainable, strict=True)]
    num_examples = measures.tally.num_examples // training_settings.num_epochs(
      self.settings, trained.client_id, state["round_num"]
    )
    counts = tf.logical_and(
      finiteness.all_finite((loss, update)), num_examples > 0
    )
    signals = types.ClientSignals(
      client_id=trained.client_id,
      num_examples=tf.where(counts, tf.cast(num_examples, tf.float32), 0.0),
      loss=loss,
      accuracy=tf.where(tf.math.is_nan(accuracy), 0.0, accuracy),
      learning_rate=_learning_rate(hparams),
      effective_steps=-measures.probe[0][0],
      gradient_norm=gradient_norm,
      initial_loss=initial_loss,
    )
    result = tff.learning.templates.ClientResult(
      tf.nest.pack_sequence_as(weights.trainable, update), signals
    )
    # Metrics of a client that does not count would poison those of the round.
    metrics = tf.cond(
      counts,
      lambda: metrics,
      lambda: model.unfinalized_metrics(model.empty_metrics()),
    )
    return result, collections.OrderedDict(
      metrics=metrics, num_counted=tf.cast(counts, tf.int32)
    )

  @property
  def _evaluation_batch_size(self) -> int | None:
    return self.settings.batch_size and evaluation.EVALUATION_BATCH_SIZE

  def _before_training(
    self,
    weights: tff.learning.models.ModelWeights,
    theta: local_model.Trainable,
  ) -> tuple[evaluation.Evaluation | None, tf.Tensor]:
    """Returns f_k and a_k before training, and G_k, if anybody asks."""
    if "gradient_norm" in self.signals:
      self.model.receive(weights)
      return evaluation.evaluate_with_gradient(
        self.model, theta, self.data, self._evaluation_batch_size
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
      local_model.flat(weights.trainable),
      self.data,
      self._evaluation_batch_size,
    )

  def _loss_and_accuracy(
    self,
    before: evaluation.Evaluation | None,
    trainable: local_model.Trainable,
    tally: tallies.Tally,
  ) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns f_k and a_k, from where the settings say."""
    if self.settings.loss_at == "before" and before is not None:
      return before.loss, before.accuracy
    if self.settings.loss_at == "after":
      after = evaluation.evaluate(
        self.model, trainable, self.data, self._evaluation_batch_size
      )
      return after.loss, after.accuracy
    return (
      tallies.mean_loss(tally),
      tallies.accuracy(self.model, tally),
    )


def _learning_rate(hparams: Hparams) -> tf.Tensor:
  """Returns eta, float32[]; 0 where the optimizer has none."""
  rate = hparams.get(tff.learning.optimizers.LEARNING_RATE_KEY, 0.0)
  return tf.cast(rate, tf.float32)
