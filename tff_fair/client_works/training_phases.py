"""Client work in two phases: all clients measure, then all clients train.

Between the two the server may look at the signals of the whole cohort.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import types
from tff_fair.client_works import (
  client_round,
  local_model,
  model_info,
  training,
  training_settings,
  training_state,
)

# Those that only training tells.
_UNKNOWN_BEFORE = frozenset(["effective_steps"])


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


def are_known_before(signals: Collection[str]) -> bool:
  """Returns whether clients know these of their signals before they train."""
  return _UNKNOWN_BEFORE.isdisjoint(signals)


def build_training_phases(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  *,
  signals: Collection[str] = (),
) -> TrainingPhases:
  """Builds the client work of `build_training` in two phases.

  Args:
    model_fn: As `build_training` takes it, and so are those that follow.
    optimizer: The client optimizer.
    settings: How clients train, with `loss_at="before"`.
    signals: The signals that the rule asks for; `are_known_before` says yes.

  Returns:
    The phases. In the second one a client finds its signals by its id. So the
    clients of a cohort have different ids, or the same data. A client whose
    signals the server does not have reports `num_examples` 0, as does one whose
    update is not finite. `effective_steps` is 0 for all.
  """
  state = training_state.build_state(optimizer)
  info = model_info.describe(model_fn)
  options = model_fn, optimizer, settings, signals
  measure = build_measure(*options)
  train = training.build_client_computation(_train, *options, cohort_type())
  end_round = training.build_end_of_round(
    info, state, train.type_signature.result[1]
  )

  @tff.federated_computation(
    *measure.type_signature.parameter,
    tff.FederatedType(cohort_type(), tff.SERVER),
  )
  def train_all(
    state: tff.Value, received: tff.Value, data: tff.Value, cohort: tff.Value
  ) -> tff.templates.MeasuredProcessOutput:
    sent = tff.federated_broadcast(state), tff.federated_broadcast(cohort)
    result, tally = tff.federated_map(train, (sent[0], received, data, sent[1]))
    new_state, measurements = end_round(state, tally)
    return tff.templates.MeasuredProcessOutput(new_state, result, measurements)

  return TrainingPhases(measure, train_all)


def build_measure(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  signals: Collection[str],
) -> tff.Computation:
  """Builds the first phase; see `TrainingPhases`.

  Args:
    model_fn: As `build_training_phases` takes it, and so are those that follow.
    optimizer: The client optimizer.
    settings: How clients train.
    signals: The signals that the rule asks for.
  """
  measure = training.build_client_computation(
    client_round.ClientRound.measure, model_fn, optimizer, settings, signals
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


def _train(
  client: client_round.ClientRound,
  state: training_state.RoundState,
  received: Any,
  cohort: types.ClientSignals,
) -> client_round.Result:
  measured = own_signals(cohort, client.data.client_id())
  result, _ = client.train(state, received, measured)
  return result
