"""Builds the computations over clients that label correction needs.

A client trains the received model with its own proximal weight, and reports the
distribution over classes that the trained model predicts for each example. In a
real federation, a client would keep the predictions and send only two numbers
computed from them: its mean local intrinsic dimension (LID) and its noise
level. In this simulation, the program holds the predictions and clients' data.
"""

import collections
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import evaluation, keras_state
from tff_fair.client_works import (
  batches,
  evaluation as client_evaluation,
  local_model,
  local_training,
  training_settings,
)
from tff_fair.kernels import norms, stacking
from tff_fair.optimizers import optimizer_checks
from tff_fair.runtime import mergeable_aggregate

# A model's predictions for n examples, in their order: `client_id`, int64[n],
# the client with the example; and `probabilities`, float32[n, classes], a
# distribution over the classes.
Predictions: TypeAlias = evaluation.Rows


@keras_state.preserve()
def build_predictions(
  model_fn: local_model.ModelFn, *, num_classes: int, with_softmax: bool
) -> tff.Computation:
  """Builds a computation of a model's predictions, with one row per example.

  Its type is (<W@SERVER, {<int64, B>*}@CLIENTS> -> <client_id=int64[N],
  probabilities=float32[N, C]>@SERVER), for weights W, batches B, C classes and
  N examples in all. Rows are sorted by client id, then as in the client's data.
  Pass `with_softmax` if the model's outputs are logits, not probabilities.
  """
  info = local_model.describe(model_fn)
  data_type = batches.data_type(info.batch_spec)

  def run(
    model: local_model.LocalModel, weights: Any, data: tf.data.Dataset
  ) -> Predictions:
    model.receive(weights)
    return _predictions(
      model,
      local_model.flatten(weights.trainable),
      batches.ClientData(data),
      num_classes,
      with_softmax,
    )

  @tff.tensorflow.computation(info.weights_type, data_type)
  def predict(weights: Any, data: tf.data.Dataset) -> Predictions:
    return local_model.bind_model(model_fn, run)(weights, data)

  collect = _build_collect(num_classes)

  @tff.federated_computation(
    tff.FederatedType(info.weights_type, tff.SERVER),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def predict_at_clients(weights: tff.Value, data: tff.Value) -> tff.Value:
    return collect(
      tff.federated_map(predict, (tff.federated_broadcast(weights), data))
    )

  return predict_at_clients


@keras_state.preserve()
def build_round(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  *,
  num_classes: int,
  with_softmax: bool,
) -> tff.Computation:
  """Builds a round of FedAvg in which each client has its own proximal weight.

  Its type is (<W@SERVER, int64@SERVER, {float32}@CLIENTS, {<int64,
  B>*}@CLIENTS> -> <W, rows>@SERVER). The arguments are the weights, the number
  of the round (it determines the order of examples), the clients' proximal
  weights and their data. The results are the mean of the trained weights,
  weighted by examples, and the predictions of each client's own trained model.
  The mean excludes a client whose weights are not finite; if it excludes all,
  the old weights are returned. The proximal weight of `settings` is not used.
  """
  info = local_model.describe(model_fn)
  data_type = batches.data_type(info.batch_spec)
  train = _build_training(info, optimizer, settings, num_classes, with_softmax)
  collect = _build_collect(num_classes)

  @tff.tensorflow.computation(
    info.weights_type, info.weights_type.trainable, np.float32
  )
  def finish(weights: Any, mean: Any, total: tf.Tensor) -> Any:
    # If all clients are excluded, the weights do not change.
    old, new = map(tf.nest.flatten, (weights.trainable, mean))
    return local_model.with_trainable(
      weights,
      [tf.where(total > 0, v, w) for v, w in zip(new, old, strict=True)],
    )

  @tff.federated_computation(
    tff.FederatedType(info.weights_type, tff.SERVER),
    tff.FederatedType(np.int64, tff.SERVER),
    tff.FederatedType(np.float32, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def run_round(
    weights: tff.Value, round_num: tff.Value, mu: tff.Value, data: tff.Value
  ) -> tff.Value:
    trained, number, found = tff.federated_map(
      train,
      (
        tff.federated_broadcast(weights),
        tff.federated_broadcast(round_num),
        mu,
        data,
      ),
    )
    new_weights = tff.federated_map(
      finish,
      (
        weights,
        tff.federated_mean(trained, weight=number),
        tff.federated_sum(number),
      ),
    )
    return tff.federated_zip((new_weights, collect(found)))

  return run_round


def _build_training(
  info: local_model.ModelInfo,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  num_classes: int,
  with_softmax: bool,
) -> tff.Computation:
  """Builds one client's training, which returns weights, n_k and predictions.

  n_k is the number of examples, or 0 if the trained weights are not finite.
  """
  data_type = batches.data_type(info.batch_spec)

  def run(
    model: local_model.LocalModel,
    weights: Any,
    round_num: tf.Tensor,
    mu: tf.Tensor,
    data: tf.data.Dataset,
  ) -> tuple[Any, tf.Tensor, Predictions]:
    model.receive(weights)
    theta = local_model.flatten(weights.trainable)
    client_data = batches.ClientData(data)
    trained = local_training.train_weights(
      model,
      settings,
      optimizer,
      {
        "optimizer": optimizer_checks.hparams_of(optimizer),
        "round_num": round_num,
        "shuffle_seed": training_settings.seed_in_64_bits(
          settings.shuffle_seed
        ),
      },
      theta,
      client_data,
      start=theta,
      proximal_mu=mu,
    )
    found = _predictions(model, trained, client_data, num_classes, with_softmax)
    is_finite = norms.all_finite(trained)
    number = tf.shape(found["client_id"])[0]
    return (
      local_model.with_trainable(
        weights,
        [
          tf.where(is_finite, v, w) for v, w in zip(trained, theta, strict=True)
        ],
      ).trainable,
      tf.where(is_finite, tf.cast(number, tf.float32), 0.0),
      found,
    )

  @tff.tensorflow.computation(
    info.weights_type, np.int64, np.float32, data_type
  )
  def train(
    weights: Any, round_num: tf.Tensor, mu: tf.Tensor, data: tf.data.Dataset
  ) -> tuple[Any, tf.Tensor, Predictions]:
    return local_model.bind_model(info.model_fn, run)(
      weights, round_num, mu, data
    )

  return train


def _predictions(
  model: local_model.LocalModel,
  trainable: local_model.Trainable,
  data: batches.ClientData,
  num_classes: int,
  with_softmax: bool,
) -> Predictions:
  """Returns a model's predictions for a client; call it in a `tf.function`."""
  metrics = model.empty_metrics()

  def over_element(rows: Predictions, element: batches.Element) -> Predictions:
    client_id, examples = element

    def over_batch(rows: Predictions, batch: batches.Batch) -> Predictions:
      output = model.forward(trainable, metrics, batch, training=False)
      found = tf.cast(output.predictions, tf.float32)
      if with_softmax:
        found = tf.nn.softmax(found)
      ids = tf.repeat(client_id, tf.shape(found)[0])
      return stacking.join_rows(
        rows, collections.OrderedDict(client_id=ids, probabilities=found)
      )

    return batches.reduce_slices(
      examples, client_evaluation.EVALUATION_BATCH_SIZE, rows, over_batch
    )

  return data.reduce(stacking.no_rows(_columns(num_classes)), over_element)


def _build_collect(num_classes: int) -> tff.Computation:
  """Builds the computation that collects clients' predictions, sorted by id."""
  columns = _columns(num_classes)
  return mergeable_aggregate.build(
    tff.types.tensorflow_to_type(
      tf.nest.map_structure(
        lambda row: tf.TensorSpec([None, *row.shape], row.dtype), columns
      )
    ),
    zero=lambda: stacking.no_rows(columns),
    accumulate=stacking.join_rows,
    merge=stacking.join_rows,
    report=evaluation.sort_rows,
  )


def _columns(num_classes: int) -> collections.OrderedDict[str, tf.TensorSpec]:
  """Returns the specs of a row of `Predictions`."""
  return collections.OrderedDict(
    client_id=stacking.CLIENT_ID_SPEC,
    probabilities=tf.TensorSpec([num_classes], tf.float32),
  )
