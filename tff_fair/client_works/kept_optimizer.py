"""A client optimizer that goes on, in each round, from its last state.

TFF's clients start their optimizer anew each round, with a momentum of zero. In
code whose clients are objects that live on, as the release of AdaFedAdam
(github.com/li-ju666/adafedadam), the optimizer is made once:

  a <- rho a + g,  w <- w - eta a,  with a from the client's last round

A row has the states for the weights and for the probe that measures the
effective steps, with d numbers for a momentum and few more. So a constant
gradient one still tells how far a client goes. The hyperparameters are in it,
too, and those of the round take their place.
"""

from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared, types
from tff_fair.client_works import client_table, optimizer_states
from tff_fair.kernels import stacking


def columns(
  weights_type: Any, optimizer: tff.learning.optimizers.Optimizer
) -> client_table.Columns:
  """Returns the columns of the table of optimizer states.

  Args:
    weights_type: The type of `tff.learning.models.ModelWeights`, W.
    optimizer: The client optimizer.

  Raises:
    FieldError: If it has nothing to keep, or something that is no float.
  """
  specs = tff.types.type_to_tf_tensor_specs(weights_type.trainable)
  with tf.Graph().as_default():
    theta = [tf.zeros(s.shape, s.dtype) for s in tf.nest.flatten(specs)]
    states = optimizer_states.initial_states(optimizer, tuple(theta))
    hparams = tf.nest.flatten(optimizer.get_hparams(states.model))
    leaves = _leaves(states)
    kept = len(tf.nest.flatten(states.model)) - len(hparams)
    if not kept or not all(leaf.dtype.is_floating for leaf in leaves):
      raise declared.FieldError(
        "keeps_optimizer_state",
        "Expected a client_optimizer with a momentum to keep, as "
        "tff.learning.optimizers.build_sgdm(learning_rate, momentum), found "
        f"{type(optimizer).__name__} with "
        + ("a state that counts steps." if kept else "nothing to keep."),
      )
    return client_table.Columns(
      "state", stacking.row_spec([_spec(leaf) for leaf in leaves])
    )


def states_to_start_from(
  table: client_table.Table,
  client_id: tf.Tensor,
  new: optimizer_states.OptimizerStates,
) -> optimizer_states.OptimizerStates:
  """Returns the optimizer's states before training.

  Args:
    table: Has the states of the client's last round, if there was one.
    client_id: int64[], the client's.
    new: Those of an optimizer that starts anew.
  """
  known, row = client_table.find(table, client_id)
  new = tf.nest.map_structure(tf.convert_to_tensor, new)
  specs = tf.nest.map_structure(_spec, new)
  return tf.cond(
    known, lambda: stacking.unflatten_update(row(), specs), lambda: new
  )


def states_to_keep(
  states: optimizer_states.OptimizerStates, signals: types.ClientSignals
) -> client_table.Kept:
  """Returns the row of a client after training, if the client counts.

  Args:
    states: Those after training.
    signals: Those that the client reports.
  """
  return client_table.row_to_keep(
    signals.client_id,
    signals.num_examples > 0,
    stacking.flatten_update(states),
  )


def _leaves(states: optimizer_states.OptimizerStates) -> list[tf.Tensor]:
  return [*map(tf.convert_to_tensor, tf.nest.flatten(states))]


def _spec(tensor: tf.Tensor) -> tf.TensorSpec:
  return tf.TensorSpec(tensor.shape, tensor.dtype)
