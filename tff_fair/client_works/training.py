"""Client work: trains the received model and reports signals beside the update.

Delta_k = theta - theta_k
f_k, a_k: loss and accuracy of theta over the local examples, before training
"""

import collections
from collections.abc import Callable, Collection, Mapping
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works import (
  batches,
  client_round,
  local_model,
  model_info,
  secure_tally,
  training_settings,
  training_state,
)


def build_training(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  *,
  signals: Collection[str] = (),
  securely: bool = False,
) -> tff.learning.templates.ClientWorkProcess:
  """Builds the client work of every method that trains one model per client.

  Args:
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    optimizer: The client optimizer, started anew each round.
    settings: How clients train.
    signals: The `ClientSignals` that the rule asks for. `gradient_norm` costs a
      backward pass over the examples, `initial_loss` a forward pass; the others
      are always there.
    securely: Whether the metrics travel in a secure sum, held in
      `secure_tally.BOUND`.

  Returns:
    A process whose `next` has the type (<S@SERVER, W@CLIENTS, {<int64, B>*}
    @CLIENTS> -> <state=S@SERVER, result=ClientResult(W.trainable,
    ClientSignals)@CLIENTS, measurements=<train=M>@SERVER>). W is the model's
    weights, or with `initial_loss` those that `build_with_initial_weights`
    sends. A client whose update or loss is not finite, or that has no examples,
    reports `num_examples` 0. S holds the optimizer's hyperparameters, which are
    those of the process, and the number of rounds in which any client counted.

  Raises:
    TypeError: If an argument has the wrong type.
  """
  state = training_state.build_state(optimizer)
  info = model_info.describe(model_fn)
  work = build_client_computation(_run, model_fn, optimizer, settings, signals)

  @tff.federated_computation
  def initialize() -> tff.Value:
    return tff.federated_eval(state.initial, tff.SERVER)

  return tff.learning.templates.ClientWorkProcess(
    initialize,
    _build_next(info, state, work, securely),
    get_hparams_fn=state.get_hparams,
    set_hparams_fn=state.set_hparams,
  )


def _run(
  client: client_round.ClientRound,
  state: training_state.RoundState,
  received: Any,
) -> client_round.Result:
  result, _ = client.run(state, received)
  return result


def _build_next(
  info: model_info.ModelInfo,
  at_server: training_state.StateComputations,
  work: tff.Computation,
  securely: bool,
) -> tff.Computation:
  """Builds a round; see `build_training`."""
  _, received_type, data_type = work.type_signature.parameter
  end_round = build_end_of_round(
    info, at_server, work.type_signature.result[1], securely=securely
  )

  @tff.federated_computation(
    tff.FederatedType(at_server.type, tff.SERVER),
    tff.FederatedType(received_type, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def next_fn(
    state: tff.Value, weights: tff.Value, data: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    result, tally = tff.federated_map(
      work, (tff.federated_broadcast(state), weights, data)
    )
    new_state, measurements = end_round(state, tally)
    return tff.templates.MeasuredProcessOutput(new_state, result, measurements)

  return next_fn


def build_end_of_round(
  info: model_info.ModelInfo,
  at_server: training_state.StateComputations,
  tally: tff.Type,
  *,
  securely: bool = False,
) -> tff.Computation:
  """Builds the computation at the server after all clients have trained.

  Args:
    info: The facts about the model.
    at_server: The computations on the state.
    tally: The type of a client's terms of sums, see `client_round.Result`.
    securely: Whether they travel in a secure sum.

  Returns:
    A `tff.Computation` of type (<S@SERVER, tally@CLIENTS> -> <S@SERVER,
    <train=M>@SERVER>). Where no client counted, the means in M are NaN.
  """

  @tff.tensorflow.computation(tally)
  def finalize(
    total: Mapping[str, Any],
  ) -> Mapping[str, tf.Tensor]:
    metrics = info.finalize_metrics(total["metrics"])
    return tf.nest.map_structure(
      lambda x: _or_nan(x, total["num_counted"] > 0), metrics
    )

  @tff.federated_computation(
    tff.FederatedType(at_server.type, tff.SERVER),
    tff.FederatedType(tally, tff.CLIENTS),
  )
  def end_round(
    state: tff.Value, tally: tff.Value
  ) -> tuple[tff.Value, tff.Value]:
    # In one sum: each costs a call per client, one after the other.
    add = secure_tally.secure_sum if securely else tff.federated_sum
    total = add(tally)
    new_state = tff.federated_map(at_server.next, (state, total["num_counted"]))
    measurements = collections.OrderedDict(
      train=tff.federated_map(finalize, total)
    )
    return new_state, tff.federated_zip(measurements)

  return end_round


def _or_nan(metric: tf.Tensor, is_known: tf.Tensor) -> tf.Tensor:
  """Returns a metric; NaN instead of a mean over nothing."""
  if not metric.dtype.is_floating:
    return metric
  return tf.where(is_known, metric, tf.constant(float("nan"), metric.dtype))


def received_type(
  info: model_info.ModelInfo, signals: Collection[str]
) -> tff.Type:
  """Returns the type of what clients receive, W.

  Args:
    info: The facts about the model.
    signals: As `build_training` takes them.
  """
  if "initial_loss" not in signals:
    return info.weights_type
  return tff.to_type(
    collections.OrderedDict(
      current=info.weights_type, initial=info.weights_type
    )
  )


def build_client_computation(
  run: Callable[..., Any],
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  signals: Collection[str],
  *further: tff.Type,
) -> tff.Computation:
  """Builds what one client does with its data.

  Args:
    run: Takes a `ClientRound`, the training's state, what the client received,
      and the further arguments.
    model_fn: As `build_training` takes it, and so are those that follow.
    optimizer: The client optimizer.
    settings: How clients train.
    signals: The signals that the rule asks for.
    *further: The types of further arguments.

  Returns:
    A `tff.Computation`: from state, what the client received, its data, and the
    further arguments to the result of `run`.
  """
  info = model_info.describe_trainable(model_fn)

  def run_client(
    model: local_model.LocalModel,
    state: training_state.RoundState,
    received: Any,
    data: tf.data.Dataset,
    *others: Any,
  ) -> Any:
    client = client_round.ClientRound(
      model, optimizer, settings, signals, batches.ClientData(data)
    )
    return run(client, state, received, *others)

  @tff.tensorflow.computation(
    tff.to_type(
      (
        training_state.build_state(optimizer).type,
        received_type(info, signals),
        batches.data_type(info.batch_spec),
        *further,
      )
    )
  )
  def work(arguments: tuple[Any, ...]) -> Any:
    return local_model.in_graph(model_fn, run_client)(*arguments)

  return work
