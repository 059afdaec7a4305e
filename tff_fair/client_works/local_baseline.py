"""Trains without a server: on one client's data, or on pooled data.

The steps are those of a client's work in a round, but without the proximal
term. Each round continues from the weights of the previous round; the result is
the weights with the least loss on held-out examples.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works import (
  batches,
  client_optimizer,
  evaluation,
  local_model,
  local_training,
  training_settings,
)
from tff_fair.client_works.training_settings import (
  TrainingSettings,
  decayed_hparams,
  seed_in_64_bits,
)
from tff_fair.optimizers import optimizer_checks


class BestModel(NamedTuple):
  """The best round's weights, its number and its validation loss.

  Round 0 is before training.
  """

  weights: tff.learning.models.ModelWeights
  round_num: int
  loss: float = math.inf


class ServerlessTraining:
  """Trains models without a server, in this process."""

  def __init__(
    self,
    model_fn: Callable[[], tff.learning.models.VariableModel],
    optimizer: tff.learning.optimizers.Optimizer,
    settings: TrainingSettings,
  ) -> None:
    """Prepares training with a model, a client optimizer and settings.

    `model_fn` must return a new `VariableModel`, because a `FunctionalModel` of
    a Keras model runs only inside TFF's computations.
    """
    settings = dataclasses.replace(settings, proximal_mu=0.0)
    one_epoch = dataclasses.replace(settings, local_epochs=1, local_steps=None)
    hparams = optimizer_checks.hparams_of(optimizer)

    def state(
      round_num: tf.Tensor, decay_round: tf.Tensor
    ) -> training_settings.RoundState:
      return {
        "optimizer": decayed_hparams(settings, hparams, decay_round),
        "round_num": round_num,
        "shuffle_seed": seed_in_64_bits(settings.shuffle_seed),
      }

    def train(
      model: local_model.LocalModel,
      weights: Any,
      data: tf.data.Dataset,
      round_num: tf.Tensor,
      decay_round: tf.Tensor,
    ) -> local_model.Trainable:
      model.receive(weights)
      start = local_model.flatten(weights.trainable)
      return local_training.train_weights(
        model,
        settings,
        optimizer,
        state(round_num, decay_round),
        start,
        batches.ClientData(data),
        start=start,
      )

    def train_epoch(
      model: local_model.LocalModel,
      weights: Any,
      data: tf.data.Dataset,
      round_num: tf.Tensor,
      before: local_training.EpochEnd,
    ) -> local_training.EpochEnd:
      model.receive(weights)
      return local_training.train_epoch(
        model,
        one_epoch,
        optimizer,
        state(round_num, round_num),
        batches.ClientData(data),
        before,
      )

    self._optimizer = optimizer
    self._train = local_model.bind_model(model_fn, train)
    self._train_epoch = local_model.bind_model(model_fn, train_epoch)
    self._loss = local_model.bind_model(model_fn, _mean_loss)

  def loss(
    self, weights: tff.learning.models.ModelWeights, data: tf.data.Dataset
  ) -> float:
    """Returns the mean loss of a model over examples, in inference mode."""
    return float(self._loss(weights, data))

  def epochs(
    self,
    weights: tff.learning.models.ModelWeights,
    data: tf.data.Dataset,
    num_epochs: int,
    round_num: int,
  ) -> Iterator[tff.learning.models.ModelWeights]:
    """Yields the model's weights before training, and after each epoch.

    `round_num` determines the order of the examples and how far the learning
    rate has decayed.
    """
    yield weights
    start = local_model.flatten(weights.trainable)
    state = client_optimizer.initial_state(self._optimizer, start)
    before = local_training.EpochEnd(start, state, tf.zeros([], tf.int64))
    for _ in range(num_epochs):
      before = self._train_epoch(
        weights, data, tf.constant(round_num, tf.int64), before
      )
      yield local_model.with_trainable(weights, before.trainable)

  def train(
    self,
    weights: tff.learning.models.ModelWeights,
    folds: Sequence[tuple[tf.data.Dataset, tf.data.Dataset | None]],
    num_rounds: int,
    total_rounds: int,
    check: Callable[[], None],
    *,
    patience: int | None = None,
    until: int | None = None,
  ) -> BestModel:
    """Trains in each fold; returns the first fold's weights in the best round.

    A fold is a pair of training and validation data. The best round has the
    least mean validation loss over folds; without validation data, it is the
    last one. Over `num_rounds` rounds, the learning rate decays as it would
    over `total_rounds`. Training stops after `until` rounds, or after
    `patience` rounds in a row without a smaller validation loss; `check` is
    called after each round.
    """
    models = [weights] * len(folds)

    def loss() -> float:
      losses = [
        math.inf
        if validation_data is None
        else self.loss(model, validation_data)
        for model, (_, validation_data) in zip(models, folds, strict=True)
      ]
      return sum(losses) / len(losses)

    best = BestModel(weights, 0, loss())
    has_validation_data = all(aside is not None for _, aside in folds)
    for round_num in range(num_rounds if until is None else until):
      decay_round = round_num * total_rounds // num_rounds
      models = [
        local_model.with_trainable(
          model,
          self._train(
            model,
            data,
            tf.constant(round_num, tf.int64),
            tf.constant(decay_round, tf.int64),
          ),
        )
        for model, (data, _) in zip(models, folds, strict=True)
      ]
      found = loss()
      if found < best.loss or not has_validation_data:
        best = BestModel(models[0], round_num + 1, found)
      check()
      if patience is not None and round_num + 1 - best.round_num >= patience:
        break
    return best


def _mean_loss(
  model: local_model.LocalModel, weights: Any, data: tf.data.Dataset
) -> tf.Tensor:
  model.receive(weights)
  return evaluation.mean_loss(
    model, local_model.flatten(weights.trainable), batches.ClientData(data)
  )
