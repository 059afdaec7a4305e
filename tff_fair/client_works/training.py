"""Client work: trains the received model and reports signals beside the update.

Delta_k = theta - theta_k
f_k, a_k: loss and accuracy of theta over the local examples, before training
"""

import collections
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import tracing, types
from tff_fair.client_works import (
  batches,
  client_round,
  local_model,
  local_training,
  secure_tally,
  training_settings,
)
from tff_fair.learning_rate_decay import Hparams


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
  state = build_state(optimizer)
  info = local_model.describe(model_fn)
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
  state: local_training.RoundState,
  received: Any,
) -> client_round.Result:
  result, _ = client.run(state, received)
  return result


def _build_next(
  info: local_model.ModelInfo,
  at_server: "StateComputations",
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
  info: local_model.ModelInfo,
  at_server: "StateComputations",
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
    <train=M>@SERVER>).
  """

  @tff.tensorflow.computation(tally["metrics"])
  def finalize(
    metrics: Mapping[str, types.TensorStructure],
  ) -> Mapping[str, tf.Tensor]:
    return info.finalize_metrics(metrics)

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
      train=tff.federated_map(finalize, total["metrics"])
    )
    return new_state, tff.federated_zip(measurements)

  return end_round


class StateComputations(NamedTuple):
  """The computations on the state at the server.

  Attributes:
    initial: Returns the state before the first round, S.
    next: From state and the number of clients that counted to state.
    get_hparams: From state to the optimizer's hyperparameters, H.
    set_hparams: From state and hyperparameters to state.
  """

  initial: tff.Computation
  next: tff.Computation
  get_hparams: tff.Computation
  set_hparams: tff.Computation

  @property
  def type(self) -> tff.Type:
    """The type of the state, S."""
    return self.initial.type_signature.result


def build_state(
  optimizer: tff.learning.optimizers.Optimizer,
) -> StateComputations:
  """Builds the computations on the state of the training.

  Args:
    optimizer: The client optimizer, whose hyperparameters the state has.

  Raises:
    TypeError: If it is no optimizer of TFF.
  """
  if not isinstance(optimizer, tff.learning.optimizers.Optimizer):
    raise TypeError(
      "Expected `client_optimizer` to be a tff.learning.optimizers.Optimizer, "
      f"found {type(optimizer).__name__}. Build one with "
      "tff.learning.optimizers.build_sgdm(learning_rate)."
    )

  @tff.tensorflow.computation
  def initial_state() -> types.TensorStructure:
    specs = tf.TensorSpec([], tf.float32)
    return collections.OrderedDict(
      optimizer=optimizer.get_hparams(optimizer.initialize(specs)),
      round_num=tf.constant(0, tf.int64),
    )

  state_type = initial_state.type_signature.result

  @tff.tensorflow.computation(state_type, np.int32)
  def next_state(
    state: local_training.RoundState, num_counted: tf.Tensor
  ) -> types.TensorStructure:
    return collections.OrderedDict(
      optimizer=state["optimizer"],
      round_num=state["round_num"] + tf.cast(num_counted > 0, tf.int64),
    )

  @tff.tensorflow.computation(state_type)
  def get_hparams(state: local_training.RoundState) -> Hparams:
    return state["optimizer"]

  @tff.tensorflow.computation(state_type, state_type["optimizer"])
  def set_hparams(
    state: local_training.RoundState, hparams: Hparams
  ) -> types.TensorStructure:
    return collections.OrderedDict(
      optimizer=hparams, round_num=state["round_num"]
    )

  return StateComputations(initial_state, next_state, get_hparams, set_hparams)


def received_type(
  info: local_model.ModelInfo, signals: Collection[str]
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
  info = local_model.describe(model_fn)

  @tff.tensorflow.computation(
    tff.to_type(
      (
        build_state(optimizer).type,
        received_type(info, signals),
        batches.data_type(info.batch_spec),
        *further,
      )
    )
  )
  def work(arguments: tuple[Any, ...]) -> Any:
    model = local_model.instantiate(model_fn)

    @tracing.graph_function
    def run_in_graph(
      state: local_training.RoundState,
      received: Any,
      data: tf.data.Dataset,
      *others: Any,
    ) -> Any:
      client = client_round.ClientRound(
        model, optimizer, settings, signals, batches.ClientData(data)
      )
      return run(client, state, received, *others)

    return run_in_graph(*arguments)

  return work
