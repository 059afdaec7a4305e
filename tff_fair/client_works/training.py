"""Client work: trains the received model and reports signals beside the update.

Delta_k = theta - theta_k
f_k, a_k: loss and accuracy of theta over the local examples, before training

It may be cut in two phases, between which the server looks at the signals of
the whole cohort: all clients measure, then all clients train.

The metrics of the training may travel in a secure sum. Secure sums add
integers. There floats are multiples of 2^-11 in [-2^20, 2^20), so that whole
numbers stay exact, and integers are held in [0, 2^20]. Numbers beyond are cut
off: these sums are for those who watch, and decide no result.
"""

import collections
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.client_works import (
  batches,
  client_round,
  local_model,
  training_settings,
)
from tff_fair.privacy import unused_assertions

BOUND = 2**20
_STEP = 2.0**-11
# TFF has 2^32 - 1 steps between the bounds.
_FLOATS = (-float(BOUND), -float(BOUND) + (2**32 - 1) * _STEP)
_INTEGERS = (0, BOUND)

# Signals that only training tells.
_UNKNOWN_BEFORE = frozenset(["effective_steps"])


def build_end_of_round(
  info: local_model.ModelInfo,
  at_server: training_settings.StateComputations,
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
    add = secure_sum if securely else tff.federated_sum
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


class TrainingPhases(NamedTuple):
  """The two phases of a round's client work.

  Attributes:
    measure: A computation of the type (<S@SERVER, W@CLIENTS, D@CLIENTS> ->
      ClientSignals@CLIENTS): from the state, what clients received, and their
      data to what they know before training.
    train: From the same, and the cohort's signals (`ClientSignals` of vectors
      at the server), to the same as `next` of the whole client work.
  """

  measure: tff.Computation
  train: tff.Computation


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
  info: local_model.ModelInfo,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  signals: Collection[str],
  *further: tff.Type,
) -> tff.Computation:
  """Builds what one client does with its data.

  Args:
    run: Takes a `ClientRound`, the training's state, what the client received,
      and the further arguments.
    info: The facts about the model.
    optimizer: The client optimizer.
    settings: How clients train.
    signals: The signals that the rule asks for.
    *further: The types of further arguments.

  Returns:
    A `tff.Computation`: from state, what the client received, its data, and the
    further arguments to the result of `run`.
  """

  def run_client(
    model: local_model.LocalModel,
    state: training_settings.RoundState,
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
        training_settings.build_state(optimizer, settings).type,
        received_type(info, signals),
        batches.data_type(info.batch_spec),
        *further,
      )
    )
  )
  def work(arguments: tuple[Any, ...]) -> Any:
    return local_model.in_graph(info.model_fn, run_client)(*arguments)

  return work


def are_known_before(signals: Collection[str]) -> bool:
  """Returns whether clients know these of their signals before they train."""
  return _UNKNOWN_BEFORE.isdisjoint(signals)


def build_measure(
  info: local_model.ModelInfo,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  signals: Collection[str],
) -> tff.Computation:
  """Builds the first phase; see `TrainingPhases`.

  Args:
    info: The facts about the model.
    optimizer: The client optimizer.
    settings: How clients train.
    signals: The signals that the rule asks for.
  """
  measure = build_client_computation(
    client_round.ClientRound.measure, info, optimizer, settings, signals
  )
  state_type, received_type, data_type = measure.type_signature.parameter

  @tff.federated_computation(
    tff.FederatedType(state_type, tff.SERVER),
    tff.FederatedType(received_type, tff.CLIENTS),
    tff.FederatedType(data_type, tff.CLIENTS),
  )
  def measure_all(
    state: tff.Value, received: tff.Value, data: tff.Value
  ) -> tff.Value:
    return tff.federated_map(
      measure, (tff.federated_broadcast(state), received, data)
    )

  return measure_all


def cohort_type() -> tff.Type:
  """Returns the type of the signals of m clients, vectors."""
  return tff.types.tensorflow_to_type(
    types.ClientSignals(
      *(
        tf.TensorSpec([None], tf.int64 if name == "client_id" else tf.float32)
        for name in types.ClientSignals._fields
      )
    )
  )


def own_signals(
  cohort: types.ClientSignals, client_id: tf.Tensor
) -> types.ClientSignals:
  """Returns the signals of one client of a cohort.

  Args:
    cohort: Vectors, one entry for each client.
    client_id: int64[], the client's.

  Returns:
    Scalars. If the cohort has no such client, the number of examples is 0, and
    the loss is not finite.
  """
  matches = tf.equal(cohort.client_id, client_id)

  def found() -> types.ClientSignals:
    place = tf.argmax(matches)
    return types.ClientSignals(*(column[place] for column in cohort))

  def missing() -> types.ClientSignals:
    nothing = dict.fromkeys(types.ClientSignals._fields, tf.zeros([]))
    unknown = tf.constant(float("nan"))
    return types.ClientSignals(**nothing)._replace(
      client_id=tf.identity(client_id), loss=unknown
    )

  return tf.cond(tf.reduce_any(matches), found, missing)


def secure_sum(tally: tff.Value) -> tff.Value:
  """Returns the sum of the clients' values at the server, a structure.

  Args:
    tally: Numbers at the clients, a structure of floats and integers.
  """
  unused_assertions.keep_out_of_log()
  member = tally.type_signature.member
  specs = tff.types.type_to_tf_tensor_specs(member)

  @tff.tensorflow.computation(member)
  def widen(values: types.TensorStructure) -> types.TensorStructure:
    return tf.nest.map_structure(
      lambda x: tf.cast(x, tf.float64) if x.dtype.is_floating else x, values
    )

  wide_type = widen.type_signature.result

  @tff.tensorflow.computation(wide_type)
  def narrow(total: types.TensorStructure) -> types.TensorStructure:
    return tf.nest.map_structure(
      lambda spec, x: tf.cast(x, spec.dtype), specs, total
    )

  least, greatest = (_bounds(wide_type, end) for end in (0, 1))
  total = tff.aggregators.secure_quantized_sum(
    tff.federated_map(widen, tally), least, greatest
  )
  return tff.federated_map(narrow, total)


def _bounds(wide_type: tff.Type, end: int) -> object:
  """Returns a structure of the type with one end of its numbers' intervals."""
  if isinstance(wide_type, tff.StructType):
    elements = tff.structure.to_elements(wide_type)
    return tff.structure.Struct(
      [(name, _bounds(element, end)) for name, element in elements]
    )
  assert isinstance(wide_type, tff.TensorType)
  kind = np.dtype(wide_type.dtype).type
  is_float = np.issubdtype(kind, np.floating)
  return kind((_FLOATS if is_float else _INTEGERS)[end])
