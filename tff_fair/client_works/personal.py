"""Ditto's personal models: one for each client, beside the global one.

Li, Hu, Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through
Personalization" (ICML 2021), Algorithm 1.

  v <- v - eta (grad f_k(v) + lam (v - theta))

for as many local steps as the global model takes. v starts from the model that
the client received first, and the server keeps it across rounds.

Choices made here: f_k is the client's loss itself, also where the method makes
clients minimize something else (PropFair); the optimizer starts anew each
round.
"""

import dataclasses
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.client_works import (
  client_round,
  client_table,
  local_model,
  local_training,
  training_state,
)
from tff_fair.kernels import stacking


def columns(weights_type: tff.Type) -> client_table.Columns:
  """Returns the columns of the table of personal models.

  Args:
    weights_type: The type of `tff.learning.models.ModelWeights`, W.
  """
  return client_table.Columns(
    "weights", stacking.row_spec(_specs(weights_type))
  )


def train(
  client: client_round.ClientRound,
  lam: float,
  state: training_state.RoundState,
  weights: tff.learning.models.ModelWeights,
  table: client_table.Table,
  signals: types.ClientSignals,
) -> client_table.Kept:
  """Trains a client's personal model.

  Args:
    client: The client, which has trained the global model.
    lam: Pull of the personal model towards the global one.
    state: The state of the training at the server.
    weights: theta, as the client received it.
    table: Has the client's personal model, if it has one.
    signals: Those that the client reports.

  Returns:
    The personal model after training, if the client counts.
  """
  model, theta = client.model, local_model.flat(weights.trainable)
  model.receive(weights)
  start = weights_to_start_from(
    table, signals.client_id, theta, [_spec(w) for w in theta]
  )
  trained = local_training.train_weights(
    model,
    dataclasses.replace(client.settings, proximal_mu=lam, objective=None),
    client.optimizer,
    {"optimizer": client.hparams(state), "round_num": state["round_num"]},
    theta,
    client.data,
    start=start,
  )
  return client_table.row_to_keep(
    signals.client_id,
    signals.num_examples > 0,
    stacking.flatten_update(trained),
  )


def weights_to_start_from(
  table: client_table.Table,
  client_id: tf.Tensor,
  theta: local_model.Trainable,
  specs: types.TensorStructure,
) -> local_model.Trainable:
  """Returns v before training: the client's own model, or else the global one.

  Args:
    table: The table of personal models.
    client_id: int64[], the client's.
    theta: The trainable weights that the client received, a flat tuple.
    specs: Structure of `tf.TensorSpec` of the trainable weights.
  """
  known, row = client_table.find(table, client_id)
  return tf.cond(
    known,
    lambda: local_model.flat(stacking.unflatten_update(row(), specs)),
    lambda: theta,
  )


def _specs(weights_type: Any) -> types.TensorStructure:
  return tff.types.type_to_tf_tensor_specs(weights_type.trainable)


def _spec(weight: tf.Tensor) -> tf.TensorSpec:
  return tf.TensorSpec(weight.shape, weight.dtype)
