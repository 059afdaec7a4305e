"""Builds a method's client work, as one process or in two phases."""

import collections
import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_fair.client_works import (
  attacks,
  client_state,
  client_table,
  control_variates,
  training,
  trial_losses,
)
from tff_fair.client_works.client_state import TRAINING, State
from tff_fair.optimizers.learning_rate_decay import Hparams


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MethodWork(training.Training):
  """Builds a method's client work, with persistent client state and attacks."""

  # The state that clients keep from one round to the next.
  persistent_state: client_state.PersistentState = dataclasses.field(
    default_factory=client_state.PersistentState
  )
  attack: attacks.Attack | None = None  # `None` if no client attacks.

  @property
  def extra_state(self) -> dict[str, tf.TensorSpec | np.ndarray]:
    """The additional parts of S; for SCAFFOLD, with the server's control."""
    found = super().extra_state
    if self.persistent_state.controlled_clients:
      row = control_variates.row_spec(self.info.weights_type)
      found[control_variates.CONTROL] = row
    return found

  def next_state(self, state: tff.Value, total: tff.Value) -> tff.Value:
    """Returns the state after a round; for SCAFFOLD, also updates c."""
    found = super().next_state(state, total)
    if not (number := self.persistent_state.controlled_clients):
      return found
    change = total[control_variates.CONTROL]
    moved = control_variates.build_next(
      found.type_signature.member, change.type_signature.member, number
    )
    return tff.federated_map(moved, (found, change))

  def build(self) -> tff.learning.templates.ClientWorkProcess:
    """Builds the client work as one process."""
    if self.persistent_state:
      return self._build_stateful()
    process = super().build()
    if self.attack is None:
      return process
    return attacks.build_attacked(process, self.attack)

  def build_phases(self) -> training.TrainingPhases:
    """Builds the two phases of the process; `has_phases` must be true.

    If clients keep state, each phase takes the clients' tables after the data.
    """
    phases = (
      self._build_stateful_phases()
      if self.persistent_state
      else super().build_phases()
    )
    if self.attack is None:
      return phases
    return attacks.build_attacked_phases(phases, self.attack)

  def build_round(self) -> tff.Computation:
    """Builds a computation like `next` that also takes each client's rows.

    Its last argument, placed at clients, has each client's tables, which need
    only the client's own rows. The new rows go into the state's tables, which
    may be empty.
    """
    work = self.build_for_client(self.persistent_state.run, self._tables_type)
    end_round = self._build_end_of_stateful_round(work)

    @tff.federated_computation(*self._stateful_parameter)
    def round_of_own(
      state: tff.Value, received: tff.Value, data: tff.Value, own: tff.Value
    ) -> tff.templates.MeasuredProcessOutput:
      sent = tff.federated_broadcast(state[TRAINING])
      return end_round(
        state, tff.federated_map(work, (sent, received, data, own))
      )

    if self.attack is None:
      return round_of_own
    return attacks.build_attacked_round(round_of_own, self.attack)

  def build_trial_losses(self, factors: Sequence[float]) -> tff.Computation:
    """Builds the computation of clients' losses after steps of trial lengths.

    The lengths are `factors` times the server's learning rate.
    """
    return trial_losses.build_trial_losses(
      self.info,
      factors,
      batch_size=self.settings.batch_size,
      attack=self.attack,
    )

  def _build_stateful(self) -> tff.learning.templates.ClientWorkProcess:
    """Builds the process in which clients keep state.

    Its state is <training=S, NAME=<client_id=int64[T], ...=float[T, d]>,
    ...>@SERVER. Each table has a row of d numbers for each of the T clients
    that have been included so far.
    """
    round_of_own = self.build_round()
    state_type, *others, _ = self._stateful_parameter

    @tff.tensorflow.computation
    def initial_state() -> State:
      empty = [(name, c.empty()) for name, c in self._tables.items()]
      initial = (TRAINING, self.state_computations.initial())
      return collections.OrderedDict([initial, *empty])

    @tff.federated_computation
    def initialize() -> tff.Value:
      return tff.federated_eval(initial_state, tff.SERVER)

    @tff.federated_computation(state_type, *others)
    def next_fn(
      state: tff.Value, received: tff.Value, data: tff.Value
    ) -> tff.templates.MeasuredProcessOutput:
      own = collections.OrderedDict((n, state[n]) for n in self._tables)
      sent = tff.federated_broadcast(tff.federated_zip(own))
      return round_of_own(state, received, data, sent)

    @tff.tensorflow.computation(state_type.member)
    def get_hparams(state: State) -> Hparams:
      return self.state_computations.get_hparams(state[TRAINING])

    @tff.tensorflow.computation(
      state_type.member, get_hparams.type_signature.result
    )
    def set_hparams(state: State, hparams: Hparams) -> State:
      new = self.state_computations.set_hparams(state[TRAINING], hparams)
      return collections.OrderedDict([*state.items(), (TRAINING, new)])

    return tff.learning.templates.ClientWorkProcess(
      initialize,
      next_fn,
      get_hparams_fn=get_hparams,
      set_hparams_fn=set_hparams,
    )

  def _build_stateful_phases(self) -> training.TrainingPhases:
    """Builds the two phases if clients keep state."""
    measure = self.build_measure()
    cohort_type = training.cohort_type()
    work = self.build_for_client(
      lambda client, state, received, cohort, own: self.persistent_state.run(
        client, state, received, own, cohort
      ),
      cohort_type,
      self._tables_type,
    )
    end_round = self._build_end_of_stateful_round(work)

    @tff.federated_computation(*self._stateful_parameter)
    def measure_all(
      state: tff.Value, received: tff.Value, data: tff.Value, own: tff.Value
    ) -> tff.Value:
      del own  # Only training needs it.
      return measure(state[TRAINING], received, data)

    @tff.federated_computation(
      *self._stateful_parameter, tff.FederatedType(cohort_type, tff.SERVER)
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

  @functools.cached_property
  def _tables(self) -> Mapping[str, client_table.Columns]:
    """The columns of the clients' tables, by table name."""
    return self.persistent_state.tables(self.info.weights_type, self.optimizer)

  @property
  def _tables_type(self) -> tff.StructType:
    """The type of a structure of the clients' tables, by table name."""
    return tff.StructType([(n, c.type) for n, c in self._tables.items()])

  @property
  def _stateful_parameter(self) -> tuple[tff.FederatedType, ...]:
    """The types of a round's arguments; the clients' tables come last."""
    state, *of_clients = self.parameter
    own = self._tables_type
    of_all = [(TRAINING, state.member), *tff.structure.iter_elements(own)]
    return (
      tff.FederatedType(
        tff.to_type(collections.OrderedDict(of_all)), tff.SERVER
      ),
      *of_clients,
      tff.FederatedType(own, tff.CLIENTS),
    )

  def _build_end_of_stateful_round(
    self, work: tff.Computation
  ) -> tff.Computation:
    """Builds the server's computation after all clients have trained.

    It maps the state, which includes the tables, and the clients' results to
    the round's output.
    """
    end_training = self.build_end_of_round(work)
    updates = {
      name: client_table.build_update(columns)
      for name, columns in self._tables.items()
    }

    @tff.federated_computation(
      self._stateful_parameter[0],
      tff.FederatedType(work.type_signature.result, tff.CLIENTS),
    )
    def end_round(
      state: tff.Value, results: tff.Value
    ) -> tff.templates.MeasuredProcessOutput:
      *_, kept = results
      trained = end_training(state[TRAINING], results)
      tables = [
        (name, update(state[name], kept[name]))
        for name, update in updates.items()
      ]
      return tff.templates.MeasuredProcessOutput(
        tff.federated_zip(
          collections.OrderedDict([(TRAINING, trained.state), *tables])
        ),
        trained.result,
        trained.measurements,
      )

    return end_round
