"""The client work that a method asks for: in one piece, and for parts."""

import collections
import dataclasses
import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import tensorflow_federated as tff

from tff_fair.client_works import (
  attacks,
  client_table,
  keeping,
  local_model,
  training,
  training_settings,
  trial_losses,
)
from tff_fair.client_works.keeping import TRAINING, State
from tff_fair.optimizers.learning_rate_decay import Hparams


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MethodWork:
  """What decides the client work of a method.

  Attributes:
    model_fn: Function that returns a new `tff.learning.models.VariableModel`,
      or a `tff.learning.models.FunctionalModel`.
    optimizer: The client optimizer.
    settings: How clients train.
    signals: The signals that the rule asks for.
    kept: What clients keep from one round to the next.
    attack: Which clients attack; `None` if no client does.
    securely: Whether what clients measure goes into secure sums, too.
  """

  model_fn: local_model.ModelFn
  optimizer: tff.learning.optimizers.Optimizer
  settings: training_settings.TrainingSettings
  signals: Collection[str] = ()
  kept: keeping.Keeping = dataclasses.field(default_factory=keeping.Keeping)
  attack: attacks.Attack | None = None
  securely: bool = False

  @functools.cached_property
  def info(self) -> local_model.ModelInfo:
    """The facts about the model, which is built for them once."""
    return local_model.describe_trainable(self.model_fn)

  def build(self) -> tff.learning.templates.ClientWorkProcess:
    """Builds the process."""
    if self.kept:
      return self._build_kept()
    process = self._build_plain()
    if self.attack is None:
      return process
    return attacks.build_attacked(process, self.attack)

  @property
  def has_phases(self) -> bool:
    """Whether clients know all signals of the rule before they train."""
    return self.settings.loss_at == "before" and training.are_known_before(
      self.signals
    )

  def build_phases(self) -> training.TrainingPhases:
    """Builds the phases of the process, if it has some.

    They need `loss_at="before"`. Where clients keep something, each phase takes
    what they keep, after their data.
    """
    phases = (
      self._build_kept_phases() if self.kept else self._build_plain_phases()
    )
    if self.attack is None:
      return phases
    return attacks.build_attacked_phases(phases, self.attack)

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

    if self.attack is None:
      return round_of_own
    return attacks.build_attacked_round(round_of_own, self.attack)

  def build_trial_losses(self, factors: Sequence[float]) -> tff.Computation:
    """Builds the losses after steps of several lengths.

    Args:
      factors: Of the length of the server's step.
    """
    return trial_losses.build_trial_losses(
      self.info,
      factors,
      batch_size=self.settings.batch_size,
      attack=self.attack,
    )

  def _build_plain(self) -> tff.learning.templates.ClientWorkProcess:
    """Builds the process in which clients keep nothing."""
    work = training.build_client_computation(
      lambda client, state, received: client.run(state, received)[0],
      *self._options,
    )
    state_type, *of_clients = work.type_signature.parameter
    end_round = training.build_end_of_round(
      self.info,
      self._at_server,
      work.type_signature.result[1],
      securely=self.securely,
    )

    @tff.federated_computation
    def initialize() -> tff.Value:
      return tff.federated_eval(self._at_server.initial, tff.SERVER)

    @tff.federated_computation(
      tff.FederatedType(state_type, tff.SERVER),
      *(tff.FederatedType(t, tff.CLIENTS) for t in of_clients),
    )
    def next_fn(
      state: tff.Value, weights: tff.Value, data: tff.Value
    ) -> tff.templates.MeasuredProcessOutput:
      result, tally = tff.federated_map(
        work, (tff.federated_broadcast(state), weights, data)
      )
      new_state, measurements = end_round(state, tally)
      return tff.templates.MeasuredProcessOutput(
        new_state, result, measurements
      )

    return tff.learning.templates.ClientWorkProcess(
      initialize,
      next_fn,
      get_hparams_fn=self._at_server.get_hparams,
      set_hparams_fn=self._at_server.set_hparams,
    )

  def _build_plain_phases(self) -> training.TrainingPhases:
    """Builds the phases in which clients keep nothing.

    In the second one a client finds its signals by its id. So the clients of a
    cohort have different ids, or the same data. A client whose signals the
    server does not have reports `num_examples` 0, as does one whose update is
    not finite. `effective_steps` is 0 for all.
    """
    measure = training.build_measure(*self._options)
    train = training.build_client_computation(
      lambda client, state, received, cohort: client.train(
        state,
        received,
        training.own_signals(cohort, client.data.client_id()),
      )[0],
      *self._options,
      training.cohort_type(),
    )
    end_round = training.build_end_of_round(
      self.info, self._at_server, train.type_signature.result[1]
    )

    @tff.federated_computation(
      *measure.type_signature.parameter,
      tff.FederatedType(training.cohort_type(), tff.SERVER),
    )
    def train_all(
      state: tff.Value, received: tff.Value, data: tff.Value, cohort: tff.Value
    ) -> tff.templates.MeasuredProcessOutput:
      sent = tff.federated_broadcast(state), tff.federated_broadcast(cohort)
      result, tally = tff.federated_map(
        train, (sent[0], received, data, sent[1])
      )
      new_state, measurements = end_round(state, tally)
      return tff.templates.MeasuredProcessOutput(
        new_state, result, measurements
      )

    return training.TrainingPhases(measure, train_all)

  def _build_kept(self) -> tff.learning.templates.ClientWorkProcess:
    """Builds the process in which clients keep something.

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

  def _build_kept_phases(self) -> training.TrainingPhases:
    """Builds the phases in which clients keep something."""
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
    return self.info, self.optimizer, self.settings, self.signals

  @functools.cached_property
  def _at_server(self) -> training_settings.StateComputations:
    return training_settings.build_state(self.optimizer, self.settings)

  @functools.cached_property
  def _tables(self) -> Mapping[str, client_table.Columns]:
    """The columns of the tables, by name."""
    return self.kept.tables(self.info.weights_type, self.optimizer)

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
      self.info, self._at_server, result_type[1]
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
      `training.BOUND`.

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
  return MethodWork(
    model_fn=model_fn,
    optimizer=optimizer,
    settings=settings,
    signals=signals,
    securely=securely,
  ).build()


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
  return MethodWork(
    model_fn=model_fn,
    optimizer=optimizer,
    settings=settings,
    signals=signals,
    kept=keeping.Keeping(personal_lam=lam),
  ).build()
