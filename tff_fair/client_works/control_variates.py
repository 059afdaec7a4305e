"""Computes SCAFFOLD's control variates, which correct clients' drift.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh, "SCAFFOLD: Stochastic Controlled
Averaging for Federated Learning" (ICML 2020), Algorithm 1, option II.

  w <- w - eta (g(w) - c_k + c), K_k times from theta to theta_k
  c_k+ = c_k - c + (theta - theta_k) / (K_k eta)
  c <- c + (1/N) sum over S of (c_k+ - c_k)

c is the server's control, and c_k is client k's; all are zero at first. S is
the set of the round's clients, and N is the number of clients that may take
part. A client that is excluded from a round keeps c_k. The correction affects
only the training of the global model, not signals, personal models or
evaluations. With a proximal term, c_k includes the term's gradients.
"""

import collections
from typing import Any, Final, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared
from tff_fair.client_works import client_table, local_model
from tff_fair.client_works.training_settings import RoundState
from tff_fair.kernels import norms, stacking
from tff_fair.optimizers import optimizer_checks
from tff_fair.types import TensorStructure

CONTROL: Final = "control"  # The name of c in the training's state.


class Controls(NamedTuple):
  """The controls c and c_k that correct a client's steps, both flat tuples."""

  server: local_model.Trainable
  client: local_model.Trainable

  @property
  def correction(self) -> local_model.Trainable:
    """The term that is added to each gradient, c - c_k."""
    return tuple(c - own for c, own in zip(*self, strict=True))

  def next_client_control(
    self,
    update: local_model.Trainable,
    num_steps: tf.Tensor,
    learning_rate: tf.Tensor,
  ) -> local_model.Trainable:
    """Returns c_k+ after training that resulted in `update`.

    `num_steps` is K_k, int64[], and `learning_rate` is eta, float32[].
    """
    moved = tf.cast(num_steps, tf.float32) * learning_rate
    return tuple(
      delta / tf.cast(moved, delta.dtype) - correction
      for delta, correction in zip(update, self.correction, strict=True)
    )


def row_spec(weights_type: Any) -> tf.TensorSpec:
  """Returns the spec of a control as a vector, float[weights]."""
  specs = tff.types.type_to_tf_tensor_specs(weights_type.trainable)
  return stacking.row_spec(specs)


def columns(weights_type: Any) -> client_table.Columns:
  """Returns the columns of the table that keeps the clients' controls."""
  return client_table.Columns("variate", row_spec(weights_type))


def client_controls(
  state: RoundState,
  table: client_table.Table,
  client_id: tf.Tensor,
  theta: local_model.Trainable,
) -> Controls:
  """Returns c from the state, and c_k from the table, for one client."""
  specs = stacking.specs_of(theta)
  return Controls(
    stacking.unflatten_update(state[CONTROL], specs),
    client_table.value_or(table, client_id, stacking.zeros(specs)),
  )


def change(
  counts: tf.Tensor, before: TensorStructure, after: TensorStructure
) -> tf.Tensor:
  """Returns c_k+ - c_k, float[weights], or zeros if the client keeps c_k.

  A client keeps c_k if it is excluded (not `counts`), or c_k+ is not finite.
  """
  old, new = (stacking.flatten_update(c)[0] for c in (before, after))
  is_kept = counts & norms.all_finite(new)
  return tf.where(is_kept, new - old, tf.zeros_like(old))


def build_next(
  state_type: tff.Type, change_type: tff.Type, num_clients: int
) -> tff.Computation:
  """Builds the computation that updates c from the sum of clients' changes."""

  @tff.tensorflow.computation(state_type, change_type)
  def moved(state: RoundState, total: tf.Tensor) -> TensorStructure:
    control = state[CONTROL] + total / tf.cast(num_clients, total.dtype)
    return collections.OrderedDict(state, **{CONTROL: control})

  return moved


def check(optimizer: tff.learning.optimizers.Optimizer) -> None:
  """Raises `FieldError` unless the client optimizer is SGD without momentum."""
  if not optimizer_checks.is_plain_sgd(optimizer):
    raise declared.FieldError(
      "local_correction",
      "SCAFFOLD's control variates need SGD without momentum at the clients: "
      "pass tff.learning.optimizers.build_sgdm(learning_rate) as "
      "client_optimizer, or local_correction=none.",
    )
