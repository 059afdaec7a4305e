"""Fine-tunes the final model at each client, for a few local epochs.

Each client continues from the run's last evaluated global model, on its
training examples, by the local work of a round: the client optimizer, the
minibatches and the order of examples are those of the round after the last one,
without a proximal term and without a server. A client selects the number of
epochs with the least mean validation loss (the fewest epochs, if losses are
equal). Validation examples are those that `validation_fraction` holds out, or
else a fifth of the training examples, on which fine-tuning then does not train.
A client without validation examples keeps the global model if it has fewer than
five training examples.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tasks
from tasks.task import Arrays
from tff_fair import client_works
from tff_fair.client_works import local_baseline
from tff_fair.experiments import interruption
from tff_fair.experiments.runs import trained_model
from tff_fair.experiments.spec.run_spec import RunSpec
from tff_fair.experiments.training import baselines, build, learning_process


class FineTuningResult(NamedTuple):
  """The results of K clients' models, fine-tuned for up to E epochs."""

  client_ids: np.ndarray  # int64[K], the clients that the run evaluates.
  epochs: np.ndarray  # int64[K], the best number of epochs for each client.
  # float64[K, E + 1], validation losses after 0, ..., E epochs; NaN if unknown.
  losses: np.ndarray
  # For each client's test examples, float32[E + 1, examples, width].
  outputs: Sequence[np.ndarray]

  @property
  def best_outputs(self) -> list[np.ndarray]:
    """The outputs of each client's best model, float32[examples, width]."""
    return [
      of_epochs[best]
      for of_epochs, best in zip(self.outputs, self.epochs, strict=True)
    ]


def fine_tune(
  spec: RunSpec, parts: build.RunParts, trained: trained_model.Weights
) -> FineTuningResult | None:
  """Fine-tunes the model at each evaluated client; None if not requested."""
  if spec.finetune_epochs is None:
    return None
  task = parts.task
  training = _training(spec, task)
  template = tff.learning.models.ModelWeights.from_model(task.model_fn())
  weights = tf.nest.pack_sequence_as(
    template, [*map(tf.constant, trained.as_list())]
  )
  model = task.keras_model_fn()
  rows = []
  for client_id in parts.evaluated_ids.tolist():
    kept, aside = _split_client_data(task, client_id, spec.seed)
    # Without validation examples, the client keeps the global model.
    num_epochs = 0 if aside is None else spec.finetune_epochs
    losses = np.full(spec.finetune_epochs + 1, np.nan)
    outputs = []
    x_test = task.test.load(client_id)[0]
    for epoch, tuned in enumerate(
      training.epochs(
        weights,
        baselines.dataset(kept, client_id),
        num_epochs,
        trained.round_num,
      )
    ):
      if aside is not None:
        losses[epoch] = training.loss(
          tuned, baselines.dataset(aside, client_id)
        )
      tuned.assign_weights_to(model)
      outputs.append(trained_model.outputs(model, x_test))
      interruption.check()
    # `argmin` would take the NaN loss of a diverged model for the least.
    comparable = np.where(np.isnan(losses), np.inf, losses)
    rows.append((client_id, comparable.argmin(), losses, np.stack(outputs)))
  ids, epochs, losses_of_clients, of_clients = zip(*rows, strict=True)
  return FineTuningResult(
    np.array(ids, np.int64),
    np.array(epochs, np.int64),
    np.array(losses_of_clients, np.float64),
    of_clients,
  )


def _training(
  spec: RunSpec, task: tasks.Task
) -> local_baseline.ServerlessTraining:
  """Returns the run's local work, with the learning rate of fine-tuning."""
  name, rate, momentum = learning_process.client_optimizer(spec)
  if of_method := spec.all_hparams.get("client_momentum"):
    name, momentum = "momentum", float(of_method)
  work = spec.local_work
  if spec.finetune_learning_rate is not None:
    rate = spec.finetune_learning_rate
    work["learning_rate_decay"] = None
  return local_baseline.ServerlessTraining(
    task.model_fn,
    learning_process.build_optimizer(name, rate, momentum),
    client_works.TrainingSettings(**work),
  )


def _split_client_data(
  task: tasks.Task, client_id: int, seed: int
) -> tuple[Arrays, Arrays | None]:
  """Returns a client's training examples, and validation examples if any."""
  arrays = task.train.load(client_id)
  if (aside := task.validation) and aside.num_examples[client_id]:
    return arrays, aside.load(client_id)
  return baselines.split_holdout(arrays, (seed, client_id))
