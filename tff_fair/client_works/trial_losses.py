"""Measures clients' losses after steps of several lengths in one direction.

For each of several factors a, client k evaluates its loss f_k after the step
theta - eta_s a d, where d is the direction and eta_s the server's learning
rate. Then the server chooses a factor; see `tff_fair.rounds.line_search`.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works import attacks, batches, evaluation, local_model
from tff_fair.kernels import stacking
from tff_fair.runtime import mergeable_aggregate


class TrialLosses(NamedTuple):
  """The losses of r clients after each of t alternative steps.

  Attributes:
    client_id: int64[r], in any order.
    loss: float32[r, t], over a client's training examples, by step.
  """

  client_id: tf.Tensor
  loss: tf.Tensor


def build_trial_losses(
  info: local_model.ModelInfo,
  factors: Sequence[float],
  *,
  batch_size: int | None = None,
  attack: attacks.Attack | None = None,
) -> tff.Computation:
  """Builds the computation of the trial losses of a cohort.

  Its type is (<W@CLIENTS, W.trainable@CLIENTS, float32@CLIENTS, D@CLIENTS> ->
  TrialLosses@SERVER). Its arguments are the weights theta, the direction d, the
  server's learning rate eta_s, and data. The result has no row for a client
  without examples.
  """
  run = functools.partial(
    _client_losses, factors=factors, batch_size=batch_size, attack=attack
  )
  arguments = (
    info.weights_type,
    info.weights_type.trainable,
    tff.TensorType(np.float32),
    batches.data_type(info.batch_spec),
  )

  @tff.tensorflow.computation(tff.to_type(arguments))
  def of_client(arguments: tuple[Any, ...]) -> TrialLosses:
    return local_model.bind_model(info.model_fn, run)(*arguments)

  collect = mergeable_aggregate.build(
    of_client.type_signature.result,
    zero=lambda: stacking.no_rows(
      TrialLosses(
        stacking.CLIENT_ID_SPEC, tf.TensorSpec([len(factors)], tf.float32)
      )
    ),
    accumulate=stacking.join_rows,
    merge=stacking.join_rows,
  )

  @tff.federated_computation(
    *[tff.FederatedType(a, tff.CLIENTS) for a in arguments]
  )
  def of_cohort(
    weights: tff.Value,
    direction: tff.Value,
    learning_rate: tff.Value,
    data: tff.Value,
  ) -> tff.Value:
    return collect(
      tff.federated_map(of_client, (weights, direction, learning_rate, data))
    )

  return of_cohort


def _client_losses(
  model: local_model.LocalModel,
  weights: tff.learning.models.ModelWeights,
  direction: Any,
  learning_rate: tf.Tensor,
  data: tf.data.Dataset,
  *,
  factors: Sequence[float],
  batch_size: int | None,
  attack: attacks.Attack | None,
) -> TrialLosses:
  """Returns one client's losses as a row; no row if it has no examples.

  Runs inside a `tf.function`.
  """
  model.receive(weights)
  theta, d = map(local_model.flatten, (weights.trainable, direction))
  client_data = batches.ClientData(data)
  lengths = learning_rate * tf.constant(factors, tf.float32)

  def after_step(length: tf.Tensor) -> tuple[tf.Tensor, ...]:
    trainable = tuple(
      w - tf.cast(length, w.dtype) * g for w, g in zip(theta, d, strict=True)
    )
    found = evaluation.evaluate(
      model,
      trainable,
      client_data,
      batch_size and evaluation.EVALUATION_BATCH_SIZE,
    )
    return found.client_id, found.num_examples, found.loss

  # Not in parallel: calls would overwrite each other's weights in the model.
  client_ids, num_examples, losses = tf.map_fn(
    after_step,
    lengths,
    fn_output_signature=(tf.int64, tf.int64, tf.float32),
    parallel_iterations=1,
  )
  losses.set_shape(lengths.shape)
  if attack is not None:
    losses += attacks.added_loss(client_ids[0], attack)
  return stacking.rows_if(
    num_examples[0] > 0, TrialLosses(client_ids[0], losses)
  )


def losses_of(client_ids: tf.Tensor, trials: TrialLosses) -> tf.Tensor:
  """Returns the losses of the clients `client_ids`.

  Args:
    client_ids: int64[m].
    trials: The losses of r clients, usually including these m, after t steps.

  Returns:
    float32[m, t], in the order of `client_ids`; NaN for a client that `trials`
    does not have.
  """
  order = tf.argsort(trials.client_id, stable=True)
  known = tf.gather(trials.client_id, order)
  places = tf.searchsorted(known, client_ids)
  # Padded, because an id above all known ids gets the index after the last row.
  padded = tf.pad(known, [[0, 1]])
  losses = tf.pad(tf.gather(trials.loss, order), [[0, 1], [0, 0]])
  is_known = tf.logical_and(
    places < tf.size(known), tf.equal(tf.gather(padded, places), client_ids)
  )
  found = tf.gather(losses, places)
  return tf.where(is_known[:, tf.newaxis], found, float("nan"))
