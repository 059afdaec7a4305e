"""Adapts client work from users or from TensorFlow Federated to fair rules.

`build_from_computation` turns a user's computation for one client into client
work. TFF's client work reports only the number of examples; `with_signals` adds
the losses that fair rules read.
"""

import collections
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared, keras_state
from tff_fair.client_works import batches, evaluation, local_model, tally

_LEARNING_RATE = tff.learning.optimizers.LEARNING_RATE_KEY


def build_from_computation(
  work: tff.Computation,
) -> tff.learning.templates.ClientWorkProcess:
  """Builds client work that runs a computation for each client in each round.

  Args:
    work: One client's work in a round, of the type (<W, D> -> R): maps the
      model's weights, `tff.learning.models.ModelWeights`, and the client's
      data, a sequence, to a `tff.learning.templates.ClientResult`, which has
      the client's update and signals.

  Returns:
    A process without state and measurements. Its `next` has the type
    (<()@SERVER, W@CLIENTS, {D}@CLIENTS> -> <state=()@SERVER, result=R@CLIENTS,
    measurements=()@SERVER>).

  Raises:
    TypeError: If `work` is not a `tff.Computation`, or not of that type.
  """
  if not isinstance(work, tff.Computation):
    raise TypeError(
      "Expected `work` to be a tff.Computation, found "
      f"{type(work).__name__}. Decorate the function with "
      "@tff.tensorflow.computation(weights_type, data_type)."
    )
  parameter = work.type_signature.parameter
  if not isinstance(parameter, tff.StructType) or len(parameter) != 2:
    raise TypeError(
      "Expected `work` to take two arguments, the model's weights and a "
      f"client's data, found the type {work.type_signature}."
    )
  weights_type, data_type = parameter

  @tff.federated_computation
  def initialize() -> tff.Value:
    return tff.federated_value((), tff.SERVER)

  @tff.federated_computation(
    tff.FederatedType((), tff.SERVER),
    tff.FederatedType(weights_type, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def next_fn(
    state: tff.Value, weights: tff.Value, data: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    result = tff.federated_map(work, (weights, data))
    measurements = tff.federated_value((), tff.SERVER)
    return tff.templates.MeasuredProcessOutput(state, result, measurements)

  return tff.learning.templates.ClientWorkProcess(initialize, next_fn)


@keras_state.preserve()
def with_signals(
  client_work: tff.learning.templates.ClientWorkProcess,
  model_fn: local_model.ModelFn,
  *,
  learning_rate: float | None = None,
) -> tff.learning.templates.ClientWorkProcess:
  """Makes client work report the signals that fair rules read.

      work = tff.learning.templates.build_model_delta_client_work(
        model_fn, optimizer, tff.learning.ClientWeighting.NUM_EXAMPLES
      )
      work = tff_fair.client_works.with_signals(work, model_fn)

  Before the work, a client evaluates the received model on its examples, in
  inference mode, as `tff_fair.evaluation` does.

  Args:
    client_work: A process whose clients map the model's weights and their
      examples to an update (initial minus trained weights) and a scalar weight,
      as in TFF's FedAvg, FedProx and Mime, or in a process of your own.
    model_fn: The model of the client work: a function that returns a new
      `tff.learning.models.VariableModel`, or a
      `tff.learning.models.FunctionalModel`.
    learning_rate: eta of the client optimizer; `None` takes it from the
      hyperparameters of `client_work`, if they include it.

  Returns:
    A process with the state, the hyperparameters, the updates and the
    measurements of `client_work`. `tff_fair.client_dataset` makes a client's
    data; `client_work` gets the examples, and the client's id too if the type
    of its data includes one. `update_weight` has the fields of
    `tff_fair.ClientSignals` that any work can report:

    * `client_id`, the id in the data; 0 without examples;
    * `num_examples`, the weight that `client_work` reports: in TFF, the number
      of examples, or 1 with `UNIFORM`, or 0 for an update that is not finite;
    * `loss` and `accuracy` of the received model; the accuracy is 0 if the
      model has none;
    * `learning_rate`, if it is given or a hyperparameter of `client_work`.

  Raises:
    TypeError: If `client_work` is not such a process, or takes the weights
      or the data of another model.
    FieldError: If `learning_rate` is not finite and above 0 in float32; a
      `ValueError`.
  """
  if learning_rate is not None:
    declared.check_number(
      "learning_rate",
      learning_rate,
      minimum=0,
      exclude_minimum=True,
      in_float32=True,
    )
  info = local_model.describe(model_fn)
  id_data_type = batches.data_type(info.batch_spec)
  _check(client_work, info.weights_type, id_data_type)
  state_type, weights_type, data_type = (
    client_work.next.type_signature.parameter
  )
  takes_id = data_type.member == id_data_type

  @tff.tensorflow.computation(info.weights_type, id_data_type)
  def evaluate(weights: Any, data: tf.data.Dataset) -> Mapping[str, tf.Tensor]:
    return evaluation.evaluate_client(
      model_fn, evaluation.EVALUATION_BATCH_SIZE, weights, data
    )

  @tff.tensorflow.computation(id_data_type)
  def without_id(data: tf.data.Dataset) -> tf.data.Dataset:
    return data.map(lambda _, examples: examples)

  report = _build_report(
    client_work, evaluate.type_signature.result, learning_rate
  )

  @tff.federated_computation(
    state_type, weights_type, tff.FederatedType(id_data_type, tff.CLIENTS)
  )
  def next_fn(
    state: tff.Value, weights: tff.Value, data: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    before = tff.federated_map(evaluate, (weights, data))
    hparams = tff.federated_map(client_work.get_hparams, state)
    examples = data if takes_id else tff.federated_map(without_id, data)
    output = client_work.next(state, weights, examples)
    result = tff.federated_map(
      report, (tff.federated_broadcast(hparams), before, output.result)
    )
    return tff.templates.MeasuredProcessOutput(
      output.state, result, output.measurements
    )

  return tff.learning.templates.ClientWorkProcess(
    client_work.initialize,
    next_fn,
    get_hparams_fn=client_work.get_hparams,
    set_hparams_fn=client_work.set_hparams,
  )


def _build_report(
  client_work: tff.learning.templates.ClientWorkProcess,
  before_type: tff.Type,
  learning_rate: float | None,
) -> tff.Computation:
  """Builds the computation that adds the signals to a client's result."""
  hparams_type = client_work.get_hparams.type_signature.result
  knows_rate = _LEARNING_RATE in dict(tff.structure.iter_elements(hparams_type))

  @tff.tensorflow.computation(
    hparams_type,
    before_type,
    client_work.next.type_signature.result.result.member,
  )
  def report(
    hparams: Any,
    before: Mapping[str, tf.Tensor],
    result: tff.learning.templates.ClientResult,
  ) -> tff.learning.templates.ClientResult:
    signals = collections.OrderedDict(
      client_id=before["client_id"],
      num_examples=tf.cast(result.update_weight, tf.float32),
      loss=before["loss"],
      accuracy=tally.or_zero(before["accuracy"]),
    )
    if learning_rate is not None:
      signals[_LEARNING_RATE] = tf.constant(learning_rate, tf.float32)
    elif knows_rate:
      signals[_LEARNING_RATE] = tf.cast(hparams[_LEARNING_RATE], tf.float32)
    return tff.learning.templates.ClientResult(result.update, signals)

  return report


def _check(
  client_work: tff.learning.templates.ClientWorkProcess,
  weights_type: tff.Type,
  id_data_type: tff.SequenceType,
) -> None:
  """Raises `TypeError` if client work does not fit the model's types."""
  if not isinstance(client_work, tff.learning.templates.ClientWorkProcess):
    raise TypeError(
      "Expected `client_work` to be a "
      "tff.learning.templates.ClientWorkProcess, found "
      f"{type(client_work).__name__}. Build one with "
      "tff.learning.templates.build_model_delta_client_work, or of your own "
      "with tff_fair.client_works.build_from_computation."
    )
  _, received, data = client_work.next.type_signature.parameter
  if not received.member.is_equivalent_to(weights_type):
    raise TypeError(
      "Expected `client_work` to take the weights of the model of `model_fn`, "
      f"{weights_type}, found {received.member}. Build both with the same "
      "model_fn."
    )
  examples_type = tff.SequenceType(id_data_type.element[1])
  if data.member not in (examples_type, id_data_type):
    raise TypeError(
      "Expected `client_work` to take the examples of the model of `model_fn`, "
      f"{examples_type}, or these with the client's id, {id_data_type}, found "
      f"{data.member}."
    )
  weight: Any = client_work.next.type_signature.result.result.member[1]
  if not isinstance(weight, tff.TensorType) or weight.shape != ():
    raise TypeError(
      "Expected the update_weight of `client_work` to be a scalar, the number "
      f"of examples, found {weight}. Client work that reports signals needs no "
      "others."
    )
