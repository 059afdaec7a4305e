"""AFL: agnostic federated learning, the worst mixture of the clients.

Mohri, Sivek, Suresh, "Agnostic Federated Learning" (ICML 2019), stochastic
AFL, with cohorts.

  d = sum_S lambda_k Delta_k / sum_S lambda_k
  lambda_k <- lambda_k + gamma_lambda f_k on the cohort S, then
  lambda <- projection onto the simplex

f_k is the received model's loss at client k, and Delta_k the client's update.
lambda has an entry for each of the population's N clients, 1/N at the start; d
uses the old lambda. Choice made here: if all lambda_k of a cohort are 0, d = 0,
and lambda is still updated.
"""

import collections
import dataclasses
from typing import Any, Unpack

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared, finalizers, rounds, summing, types
from tff_fair.kernels import simplex, stacking
from tff_fair.methods import building


@dataclasses.dataclass(frozen=True, kw_only=True)
class AflRule(types.PopulationRule):
  """Chooses AFL's coefficients; the state is lambda, float64[N]."""

  lambda_learning_rate: float = declared.value(
    0.1,
    "Learning rate of the clients' mixture weights, gamma_lambda.",
    minimum=0,
  )

  signals = ("loss",)
  takes_gaps = True

  def initialize(self) -> tf.Tensor:
    """See the base class."""
    return self.even()

  def coefficients(
    self, cohort: types.Cohort, state: tf.Tensor
  ) -> types.RuleOutput:
    """See the base class."""
    places = self.places(cohort)
    own = tf.gather(state, places)
    ascended = tf.tensor_scatter_nd_add(
      state,
      places[:, tf.newaxis],
      self.lambda_learning_rate * cohort.loss,
    )
    return types.RuleOutput(
      tf.math.divide_no_nan(own, tf.reduce_sum(own)),
      simplex.project_to_simplex(ascended),
      {"lambda_min": tf.reduce_min(own), "lambda_max": tf.reduce_max(own)},
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ModelAveraging(declared.Hyperparameters):
  """The choice of the weights that the process returns as its model."""

  average_model: bool = declared.value(
    False,
    "Whether `get_model_weights` returns the running mean of the weights over "
    "the rounds, as AFL's theory requires. Training continues from the current "
    "ones, `state.global_model_weights`.",
  )


@building.builder(AflRule, ModelAveraging)
def build_afl(
  model_fn: rounds.ModelFn,
  rule: AflRule,
  averaging: ModelAveraging,
  **options: Unpack[rounds.ComposeOptions],
) -> rounds.LearningProcess:
  """Builds AFL.

  The option `num_clients`, the size of the population, is required: client ids
  are 0 to num_clients - 1.
  """
  if not averaging.average_model:
    return rounds.compose(model_fn, rule, **options)
  server_optimizer = rounds.server_optimizer_or_default(
    options.pop("server_optimizer", None)
  )
  process = rounds.compose(
    model_fn,
    rule,
    finalizer=lambda weights_type, decay: build_averaging(
      finalizers.build_apply_direction(server_optimizer, weights_type, decay)
    ),
    **options,
  )
  return _with_averaged_weights(process)


def build_averaging(
  finalizer: tff.learning.templates.FinalizerProcess,
) -> tff.learning.templates.FinalizerProcess:
  """Builds a finalizer that runs `finalizer` and averages its models.

    average_T = (1/T) sum_{t=1}^T theta_t

  over the rounds whose `RoundUpdate` has a `num_clients` above 0. The state is
  <step=S, average=<weights=W, num_rounds=int64>>@SERVER, with S the state of
  `finalizer`, and with zero weights before the first round.
  """
  parameter: tff.StructType = finalizer.next.type_signature.parameter
  _, weights_type, round_type = (p.member for p in parameter)
  specs = tff.types.type_to_tf_tensor_specs(weights_type)

  @tff.tensorflow.computation
  def no_average() -> Any:
    return collections.OrderedDict(
      weights=stacking.zeros(specs), num_rounds=tf.constant(0, tf.int64)
    )

  @tff.tensorflow.computation(
    no_average.type_signature.result, weights_type, round_type
  )
  def move(
    average: Any,
    weights: tff.learning.models.ModelWeights,
    round_update: Any,
  ) -> Any:
    # A round without clients does not change the model, so it does not count.
    counted = tf.cast(round_update.num_clients > 0, tf.int64)
    num_rounds = average["num_rounds"] + counted
    share = counted / tf.maximum(num_rounds, 1)
    means = tf.nest.map_structure(
      lambda mean, weight: mean + tf.cast(share, mean.dtype) * (weight - mean),
      average["weights"],
      weights,
    )
    return collections.OrderedDict(weights=means, num_rounds=num_rounds)

  @tff.federated_computation
  def initialize() -> tff.Value:
    return tff.federated_zip(
      collections.OrderedDict(
        step=finalizer.initialize(),
        average=tff.federated_eval(no_average, tff.SERVER),
      )
    )

  state_type = initialize.type_signature.result

  @tff.federated_computation(state_type, *parameter[1:])
  def next_fn(
    state: tff.Value, weights: tff.Value, round_update: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    output = finalizer.next(state["step"], weights, round_update)
    average = tff.federated_map(
      move, (state["average"], output.result, round_update)
    )
    return tff.templates.MeasuredProcessOutput(
      tff.federated_zip(
        collections.OrderedDict(step=output.state, average=average)
      ),
      output.result,
      output.measurements,
    )

  @tff.tensorflow.computation(state_type.member)
  def get_hparams(state: Any) -> Any:
    return finalizer.get_hparams(state["step"])

  @tff.tensorflow.computation(
    state_type.member, get_hparams.type_signature.result
  )
  def set_hparams(state: Any, hparams: Any) -> Any:
    step = finalizer.set_hparams(state["step"], hparams)
    return collections.OrderedDict(step=step, average=state["average"])

  return tff.learning.templates.FinalizerProcess(
    initialize,
    next_fn,
    get_hparams_fn=get_hparams,
    set_hparams_fn=set_hparams,
  )


def _with_averaged_weights(
  process: rounds.LearningProcess,
) -> rounds.LearningProcess:
  """Returns a copy of a process, with the average as its model weights."""
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
    # The average must start anew; until the next round, the model is `weights`.
    average = tf.nest.map_structure(tf.zeros_like, state.finalizer["average"])
    return state._replace(
      global_model_weights=weights,
      finalizer=collections.OrderedDict(state.finalizer, average=average),
    )

  return tff.learning.templates.LearningProcess(
    process.initialize,
    process.next,
    get_model_weights,
    set_model_weights,
    get_hparams_fn=process.get_hparams,
    set_hparams_fn=process.set_hparams,
  )


@summing.factory_of(AflRule)
class AflFactory(summing.RuleFactory):
  """Sums client updates with AFL's coefficients."""
