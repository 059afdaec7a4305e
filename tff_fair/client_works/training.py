"""Client work: trains the received model and reports signals beside the update.

Delta_k = theta - theta_k
f_k, a_k: loss and accuracy of theta over the local examples, before training
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.client_works import (
  batches,
  evaluation,
  local_model,
  local_training,
)
from tff_fair.client_works import tally as tallies
from tff_fair.kernels import finiteness


def build_training(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: local_training.TrainingSettings,
) -> tff.learning.templates.ClientWorkProcess:
  """Builds the client work of every method that trains one model per client.

  Args:
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    optimizer: The client optimizer, started anew each round.
    settings: How clients train.

  Returns:
    A process whose `next` has the type (<S@SERVER, W@CLIENTS, {<int64, B>*}
    @CLIENTS> -> <state=S@SERVER, result=ClientResult(W.trainable,
    ClientSignals)@CLIENTS, measurements=<train=M>@SERVER>). A client whose
    update or loss is not finite, or that has no examples, reports
    `num_examples` 0. S holds the optimizer's hyperparameters, which are those
    of the process, and the number of rounds in which any client counted.

  Raises:
    TypeError: If an argument has the wrong type.
  """
  if not isinstance(optimizer, tff.learning.optimizers.Optimizer):
    raise TypeError(
      "Expected `client_optimizer` to be a tff.learning.optimizers.Optimizer, "
      f"found {type(optimizer).__name__}. Build one with "
      "tff.learning.optimizers.build_sgdm(learning_rate)."
    )
  info = local_model.describe(model_fn)
  data_type = batches.data_type(info.batch_spec)

  @tff.tensorflow.computation
  def initial_state() -> Any:
    specs = tf.TensorSpec([], tf.float32)
    return collections.OrderedDict(
      optimizer=optimizer.get_hparams(optimizer.initialize(specs)),
      round_num=tf.constant(0, tf.int64),
    )

  state_type = initial_state.type_signature.result

  @tff.tensorflow.computation(state_type)
  def get_hparams(state: Any) -> Any:
    return state["optimizer"]

  @tff.tensorflow.computation(state_type, state_type["optimizer"])
  def set_hparams(state: Any, hparams: Any) -> Any:
    return collections.OrderedDict(
      optimizer=hparams, round_num=state["round_num"]
    )

  @tff.tensorflow.computation(state_type, np.int32)
  def next_state(state: Any, num_counted: Any) -> Any:
    return collections.OrderedDict(
      optimizer=state["optimizer"],
      round_num=state["round_num"] + tf.cast(num_counted > 0, tf.int64),
    )

  @tff.tensorflow.computation(state_type, info.weights_type, data_type)
  def work(state: Any, weights: Any, data: Any) -> Any:
    model = local_model.instantiate(model_fn)

    @tf.function
    def run(state: Any, weights: Any, data: tf.data.Dataset) -> Any:
      model.receive(weights)
      received = local_model.flat(weights.trainable)
      before = None
      if settings.loss_at == "before":
        before = evaluation.evaluate(
          model,
          received,
          data,
          settings.batch_size and evaluation.EVALUATION_BATCH_SIZE,
        )
      trained = local_training.train(
        model, settings, optimizer, state, received, data
      )
      # Delta_k = theta - theta_k
      update = [
        theta - w for theta, w in zip(received, trained.trainable, strict=True)
      ]
      signals = _signals(model, settings, state, update, trained, before)
      counts = signals.num_examples > 0
      result = tff.learning.templates.ClientResult(
        tf.nest.pack_sequence_as(weights.trainable, update), signals
      )
      # Metrics of a client that does not count would poison those of the round.
      metrics = tf.cond(
        counts,
        lambda: model.unfinalized_metrics(trained.tally.metrics),
        lambda: model.unfinalized_metrics(model.empty_metrics()),
      )
      return result, metrics, tf.cast(counts, tf.int32)

    return run(state, weights, data)

  @tff.federated_computation
  def initialize() -> Any:
    return tff.federated_eval(initial_state, tff.SERVER)

  @tff.federated_computation(
    initialize.type_signature.result,
    tff.FederatedType(info.weights_type, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def next_fn(state: Any, weights: Any, data: Any) -> Any:
    result, metrics, counted = tff.federated_map(
      work, (tff.federated_broadcast(state), weights, data)
    )
    new_state = tff.federated_map(
      next_state, (state, tff.federated_sum(counted))
    )
    measurements = collections.OrderedDict(
      train=info.aggregate_metrics(metrics)
    )
    return tff.templates.MeasuredProcessOutput(
      new_state, result, tff.federated_zip(measurements)
    )

  return tff.learning.templates.ClientWorkProcess(
    initialize, next_fn, get_hparams_fn=get_hparams, set_hparams_fn=set_hparams
  )


def _signals(
  model: local_model.LocalModel,
  settings: local_training.TrainingSettings,
  state: Any,
  update: Any,
  trained: local_training.Progress,
  before: evaluation.Evaluation | None,
) -> types.ClientSignals:
  """Returns what a client reports beside its update."""
  if before is None:
    loss = tallies.mean_loss(trained.tally)
    accuracy = tallies.accuracy(model, trained.tally)
  else:
    loss, accuracy = before.loss, before.accuracy
  learning_rate = state["optimizer"].get(
    tff.learning.optimizers.LEARNING_RATE_KEY, 0.0
  )
  num_examples = trained.tally.num_examples // settings.local_epochs
  return types.ClientSignals(
    client_id=trained.client_id,
    num_examples=tf.where(
      finiteness.all_finite((loss, update)),
      tf.cast(num_examples, tf.float32),
      0.0,
    ),
    loss=loss,
    accuracy=tf.where(tf.math.is_nan(accuracy), 0.0, accuracy),
    num_steps=tf.cast(trained.num_steps, tf.float32),
    learning_rate=tf.cast(learning_rate, tf.float32),
  )
