"""What clients keep from one round to the next.

TFF's clients keep nothing, so the server has a table of each kind of thing, a
row for each client; see `client_table`. In the state at the server the tables
are beside the state of the training.

Personal models are Ditto's, one for each client beside the global one: Li, Hu,
Beirami, Smith, "Ditto: Fair and Robust Federated Learning Through
Personalization" (ICML 2021), Algorithm 1.

  v <- v - eta (grad f_k(v) + lam (v - theta))

for as many local steps as the global model takes. v starts from the model that
the client received first. Choices made here: f_k is the client's loss itself,
also where the method makes clients minimize something else (PropFair); the
optimizer starts anew each round.

The other thing is the state of the client optimizer, see `client_optimizer`.
"""

import collections
import dataclasses
import functools
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff

from tff_fair import declared, types
from tff_fair.client_works import (
  client_optimizer,
  client_round,
  client_table,
  local_model,
  local_training,
  training,
  training_settings,
)
from tff_fair.kernels import stacking
from tff_fair.optimizers.learning_rate_decay import Hparams

TRAINING = "training"
# `training`, the state of the training, and the tables by their names.
State: TypeAlias = collections.OrderedDict[str, Any]

PERSONAL = "personal"
OPTIMIZER = "optimizer"
# Tables by name, each with the row of one client, if it has one.
Own: TypeAlias = Mapping[str, client_table.Table]
# The result and the tally of `client_round`, and rows by the names of tables.
Result: TypeAlias = tuple[Any, Any, Mapping[str, client_table.Kept]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Keeping:
  """What clients keep; false if it is nothing.

  Attributes:
    personal_lam: Pull of a client's personal model, which it keeps, towards the
      global one; `None` trains no personal models.
    optimizer_state: Whether the client optimizer of the global model goes on
      from its state in the client's last round.
  """

  personal_lam: float | None = None
  optimizer_state: bool = False

  def __post_init__(self) -> None:
    """Checks the pull.

    Raises:
      TypeError: If it is no number.
      ValueError: If it is out of range.
    """
    if self.personal_lam is not None:
      declared.check_number(
        "lam", self.personal_lam, minimum=0, in_float32=True
      )

  def __bool__(self) -> bool:
    """Returns whether clients keep anything."""
    return self.personal_lam is not None or self.optimizer_state

  def tables(
    self,
    weights_type: tff.Type,
    optimizer: tff.learning.optimizers.Optimizer,
  ) -> Mapping[str, client_table.Columns]:
    """Returns the columns of the tables, by the names of tables.

    Args:
      weights_type: The type of `tff.learning.models.ModelWeights`.
      optimizer: The client optimizer.

    Raises:
      FieldError: If the optimizer has nothing to keep.
    """
    found = collections.OrderedDict()
    if self.personal_lam is not None:
      found[PERSONAL] = personal_columns(weights_type)
    if self.optimizer_state:
      found[OPTIMIZER] = client_optimizer.columns(weights_type, optimizer)
    return found

  def run(
    self,
    client: client_round.ClientRound,
    state: training_settings.RoundState,
    received: Any,
    own: Own,
    cohort: types.ClientSignals | None = None,
  ) -> Result:
    """Returns what a client reports and keeps, inside a computation.

    Args:
      client: The client.
      state: The state of the training at the server.
      received: What the client received.
      own: What it keeps.
      cohort: The signals of the cohort, if clients have measured already.
    """
    weights, states = client.current(received), None
    if self.optimizer_state:
      states = client_optimizer.states_to_start_from(
        own[OPTIMIZER],
        client.data.client_id(),
        client_optimizer.initial_states(
          client.optimizer, local_model.flat(weights.trainable)
        ),
      )
    if cohort is None:
      reported, states = client.run(state, received, states)
    else:
      measured = training.own_signals(cohort, client.data.client_id())
      reported, states = client.train(state, received, measured, states)
    result, tally = reported
    client_id = result.update_weight.client_id
    found: dict[str, types.TensorStructure] = collections.OrderedDict()
    if self.personal_lam is not None:
      found[PERSONAL] = train_personal(
        client, self.personal_lam, state, weights, own[PERSONAL], client_id
      )
    if self.optimizer_state:
      found[OPTIMIZER] = states
    counts = result.update_weight.num_examples > 0
    kept = collections.OrderedDict(
      (
        name,
        client_table.row_to_keep(
          client_id, counts, stacking.flatten_update(value)
        ),
      )
      for name, value in found.items()
    )
    return result, tally, kept


def build_personal_training(
  model_fn: local_model.ModelFn,
  optimizer: tff.learning.optimizers.Optimizer,
  settings: training_settings.TrainingSettings,
  *,
  lam: float,
  signals: Collection[str] = (),
) -> tff.learning.templates.ClientWorkProcess:
  """Builds client work that trains the global and a personal model.

  Args:
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    optimizer: The client optimizer, of both trainings.
    settings: How clients train both models. The proximal term and the objective
      are the global model's; the personal one has `lam` in their place.
    lam: Pull of the personal model towards the global one, 0 or more.
    signals: The signals that the rule asks for.

  Returns:
    A process as `build_training`'s, but for its state: <training=S,
    personal=<client_id=int64[T], weights=float[T, d]>>@SERVER. The rows are the
    personal models of the clients that have counted so far.

  Raises:
    TypeError: If an argument has the wrong type.
    ValueError: If `lam` is negative.
  """
  kept = Keeping(personal_lam=lam)
  return KeepingWork(model_fn, optimizer, settings, signals, kept).build()


@dataclasses.dataclass(frozen=True, eq=False)
class KeepingWork:
  """Client work in which clients keep something, in its three forms.

  Attributes:
    model_fn: As `build_training` takes it, and so are the next three.
    optimizer: The client optimizer.
    settings: How clients train.
    signals: The signals that the rule asks for.
    kept: What clients keep.
  """

  model_fn: local_model.ModelFn
  optimizer: tff.learning.optimizers.Optimizer
  settings: training_settings.TrainingSettings
  signals: Collection[str]
  kept: Keeping

  def build(self) -> tff.learning.templates.ClientWorkProcess:
    """Builds the process.

    Returns:
      A process as `build_training`'s, but for its state: <training=S,
      NAME=<client_id=int64[T], ...=float[T, d]>, ...>@SERVER. The rows of the
      tables are those of the clients that have counted so far.
    """
    round_of_own = self.build_round()
    state_type, *others, _ = round_of_own.type_signature.parameter

    @tff.tensorflow.computation
    def initial_state() -> State:
      empty = [(name, c.empty()) for name, c in self._tables.items()]
      initial = (TRAINING, self._at_server.initial())
      return collections.OrderedDict([initial, *empty])

    @tff.federated_computation
    def initialize() -> tff.Value:
      return tff.federated_eval(initial_state, tff.SERVER)

    @tff.federated_computation(state_type, *others)
    def next_fn(
      state: tff.Value, weights: tff.Value, data: tff.Value
    ) -> tff.templates.MeasuredProcessOutput:
      own = collections.OrderedDict((n, state[n]) for n in self._tables)
      sent = tff.federated_broadcast(tff.federated_zip(own))
      return round_of_own(state, weights, data, sent)

    @tff.tensorflow.computation(state_type.member)
    def get_hparams(state: State) -> Hparams:
      return self._at_server.get_hparams(state[TRAINING])

    @tff.tensorflow.computation(
      state_type.member, get_hparams.type_signature.result
    )
    def set_hparams(state: State, hparams: Hparams) -> State:
      new = self._at_server.set_hparams(state[TRAINING], hparams)
      return collections.OrderedDict([*state.items(), (TRAINING, new)])

    return tff.learning.templates.ClientWorkProcess(
      initialize,
      next_fn,
      get_hparams_fn=get_hparams,
      set_hparams_fn=set_hparams,
    )

  def build_round(self) -> tff.Computation:
    """Builds a round in which each client has its own rows.

    Returns:
      A computation as the `next` of the process, with one argument more, at
      clients: the tables, which have a client's rows, if it has some. What the
      clients keep is put into the tables of the state, which need not have any
      other rows.
    """
    work = training.build_client_computation(
      self.kept.run, *self._options, self._own_type
    )
    _, *of_clients = work.type_signature.parameter
    end_round = self._build_end_of_round(work)

    @tff.federated_computation(
      self._state_type, *(tff.FederatedType(t, tff.CLIENTS) for t in of_clients)
    )
    def round_of_own(
      state: tff.Value, weights: tff.Value, data: tff.Value, own: tff.Value
    ) -> tff.templates.MeasuredProcessOutput:
      sent = tff.federated_broadcast(state[TRAINING])
      return end_round(
        state, tff.federated_map(work, (sent, weights, data, own))
      )

    return round_of_own

  def build_phases(self) -> training.TrainingPhases:
    """Builds the same in two phases, with `loss_at="before"`.

    Returns:
      Phases as `build_training_phases`'s, each of which takes one argument
      more, after the data: the tables.
    """
    measure = training.build_measure(*self._options)
    work = training.build_client_computation(
      lambda client, state, received, cohort, own: self.kept.run(
        client, state, received, own, cohort
      ),
      *self._options,
      training.cohort_type(),
      self._own_type,
    )
    _, *others, cohort_type, own_type = work.type_signature.parameter
    end_round = self._build_end_of_round(work)
    parameters = (
      self._state_type,
      *(tff.FederatedType(t, tff.CLIENTS) for t in (*others, own_type)),
    )

    @tff.federated_computation(*parameters)
    def measure_all(
      state: tff.Value, received: tff.Value, data: tff.Value, own: tff.Value
    ) -> tff.Value:
      del own  # Only training needs it.
      return measure(state[TRAINING], received, data)

    @tff.federated_computation(
      *parameters, tff.FederatedType(cohort_type, tff.SERVER)
    )
    def train_all(
      state: tff.Value,
      received: tff.Value,
      data: tff.Value,
      own: tff.Value,
      cohort: tff.Value,
    ) -> tff.templates.MeasuredProcessOutput:
      sent = tff.federated_broadcast(state[TRAINING])
      known = tff.federated_broadcast(cohort)
      return end_round(
        state, tff.federated_map(work, (sent, received, data, known, own))
      )

    return training.TrainingPhases(measure_all, train_all)

  @property
  def _options(self) -> tuple[Any, ...]:
    return self.model_fn, self.optimizer, self.settings, self.signals

  @functools.cached_property
  def _info(self) -> local_model.ModelInfo:
    return local_model.describe(self.model_fn)

  @functools.cached_property
  def _at_server(self) -> training_settings.StateComputations:
    return training_settings.build_state(self.optimizer, self.settings)

  @functools.cached_property
  def _tables(self) -> Mapping[str, client_table.Columns]:
    """The columns of the tables, by name."""
    return self.kept.tables(self._info.weights_type, self.optimizer)

  @property
  def _own_type(self) -> tff.StructType:
    """The type of the tables, by name."""
    return tff.StructType([(n, c.type) for n, c in self._tables.items()])

  @property
  def _state_type(self) -> tff.FederatedType:
    types = [(n, c.type) for n, c in self._tables.items()]
    of_all = collections.OrderedDict([(TRAINING, self._at_server.type), *types])
    return tff.FederatedType(tff.to_type(of_all), tff.SERVER)

  def _build_end_of_round(self, work: tff.Computation) -> tff.Computation:
    """Builds what follows at the server, from state and results to output."""
    result_type = work.type_signature.result
    end_training = training.build_end_of_round(
      self._info, self._at_server, result_type[1]
    )
    updates = {
      name: client_table.build_update(columns)
      for name, columns in self._tables.items()
    }

    @tff.federated_computation(
      self._state_type, tff.FederatedType(result_type, tff.CLIENTS)
    )
    def end_round(
      state: tff.Value, results: tff.Value
    ) -> tff.templates.MeasuredProcessOutput:
      result, tally, kept = results
      trained, measurements = end_training(state[TRAINING], tally)
      put_in = [
        (name, update(state[name], kept[name]))
        for name, update in updates.items()
      ]
      return tff.templates.MeasuredProcessOutput(
        tff.federated_zip(
          collections.OrderedDict([(TRAINING, trained), *put_in])
        ),
        result,
        measurements,
      )

    return end_round


def personal_columns(weights_type: Any) -> client_table.Columns:
  """Returns the columns of the table of personal models.

  Args:
    weights_type: The type of `tff.learning.models.ModelWeights`, W.
  """
  specs = tff.types.type_to_tf_tensor_specs(weights_type.trainable)
  return client_table.Columns("weights", stacking.row_spec(specs))


def train_personal(
  client: client_round.ClientRound,
  lam: float,
  state: training_settings.RoundState,
  weights: tff.learning.models.ModelWeights,
  table: client_table.Table,
  client_id: tf.Tensor,
) -> local_model.Trainable:
  """Trains a client's personal model; returns it.

  Args:
    client: The client, which has trained the global model.
    lam: Pull of the personal model towards the global one.
    state: The state of the training at the server.
    weights: theta, as the client received it.
    table: Has the client's personal model, if it has one.
    client_id: int64[], the client's.
  """
  model, theta = client.model, local_model.flat(weights.trainable)
  model.receive(weights)
  start = weights_to_start_from(
    table, client_id, theta, [tf.TensorSpec(w.shape, w.dtype) for w in theta]
  )
  return local_training.train_weights(
    model,
    dataclasses.replace(client.settings, proximal_mu=lam, objective=None),
    client.optimizer,
    {**state, "optimizer": client.hparams(state)},
    theta,
    client.data,
    start=start,
  )


def weights_to_start_from(
  table: client_table.Table,
  client_id: tf.Tensor,
  theta: local_model.Trainable,
  specs: types.TensorStructure,
) -> local_model.Trainable:
  """Returns v before training: the client's own model, or else the global one.

  Args:
    table: The table of personal models.
    client_id: int64[], the client's.
    theta: The trainable weights that the client received, a flat tuple.
    specs: Structure of `tf.TensorSpec` of the trainable weights.
  """
  known, row = client_table.find(table, client_id)
  return tf.cond(
    known,
    lambda: local_model.flat(stacking.unflatten_update(row(), specs)),
    lambda: theta,
  )
