"""AFL: agnostic federated learning.

Mohri, Sivek, Suresh (ICML 2019); the rule is `tff_fair.rules.afl`.
"""

import collections
from typing import Any, Unpack

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import checks, finalizers
from tff_fair.algorithms import composition
from tff_fair.rules import afl


def build_afl(
  model_fn: composition.ModelFn,
  *,
  client_optimizer: composition.Optimizer,
  lambda_learning_rate: float = afl.AflRule.lambda_learning_rate,
  average_model: bool = False,
  **options: Unpack[composition.BuildOptions],
) -> tff.learning.templates.LearningProcess:
  """Builds AFL.

  Args:
    model_fn: See `composition.compose`, as for the options.
    client_optimizer: Trains at the clients.
    lambda_learning_rate: gamma_lambda, 0 or more.
    average_model: Whether `get_model_weights` returns the running mean of the
      weights over the rounds, as AFL's theory wants it. Training goes on from
      the current ones, `state.global_model_weights`.
    **options: Options that hold for every method. `num_clients`, the size of
      the population, is needed: client ids are 0 to num_clients - 1.

  Returns:
    A `tff.learning.templates.LearningProcess`.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If an argument has a wrong value, or `num_clients` is missing.
  """
  checks.check_boolean("average_model", average_model)
  num_clients = options.get("num_clients")
  if num_clients is None:
    raise ValueError(
      "AFL weighs every client of the population: pass num_clients, its size."
    )
  rule = afl.AflRule(
    num_clients=num_clients, lambda_learning_rate=lambda_learning_rate
  )
  if not average_model:
    return composition.compose(
      model_fn, rule, client_optimizer=client_optimizer, **options
    )
  server_optimizer = options.pop("server_optimizer", None)
  if server_optimizer is None:
    server_optimizer = tff.learning.optimizers.build_sgdm(1.0)
  composition.check_optimizer("server_optimizer", server_optimizer)
  process = composition.compose(
    model_fn,
    rule,
    client_optimizer=client_optimizer,
    finalizer=lambda weights_type, decay: finalizers.build_averaging(
      finalizers.build_apply_direction(server_optimizer, weights_type, decay)
    ),
    **options,
  )
  return _with_averaged_weights(process)


def _with_averaged_weights(
  process: tff.learning.templates.LearningProcess,
) -> tff.learning.templates.LearningProcess:
  """Returns the process, but with the average as its model weights."""
  state_type = process.initialize.type_signature.result.member

  @tff.tensorflow.computation(state_type)
  def get_model_weights(state: Any) -> Any:
    average = state.finalizer["average"]
    return tf.cond(
      average["num_rounds"] > 0,
      lambda: average["weights"],
      lambda: state.global_model_weights,
    )

  @tff.tensorflow.computation(
    state_type, process.get_model_weights.type_signature.result
  )
  def set_model_weights(state: Any, weights: Any) -> Any:
    # The average starts anew from what was set.
    average = collections.OrderedDict(
      weights=tf.nest.map_structure(
        tf.zeros_like, state.finalizer["average"]["weights"]
      ),
      num_rounds=tf.constant(0, tf.int64),
    )
    return tff.learning.templates.LearningAlgorithmState(
      weights,
      state.distributor,
      state.client_work,
      state.aggregator,
      collections.OrderedDict(step=state.finalizer["step"], average=average),
    )

  return tff.learning.templates.LearningProcess(
    process.initialize,
    process.next,
    get_model_weights,
    set_model_weights,
    get_hparams_fn=process.get_hparams,
    set_hparams_fn=process.set_hparams,
  )
